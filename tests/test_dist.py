"""The wheel and the source archive: built without a network, small, and complete enough to train a recipe."""

import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "limelight"
LARGEST = 1_000_000  # bytes


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of `make dist`; the wheel is built from the source archive."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_both_are_small(dist: Path) -> None:
    sizes = {path.name.split("-")[-1]: path.stat().st_size for path in dist.iterdir()}
    assert len(sizes) == 2
    assert max(sizes.values()) <= LARGEST


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"limelight/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "limelight/recipes/reverse.toml" in expected
    assert {name for name in names if not name.partition("/")[0].endswith(".dist-info")} == expected


def test_the_source_archive_has_no_tests_and_no_pictures(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        tops = {name.split("/")[1] for name in opened.getnames()}
    expected = {"src", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "pyproject.toml"}
    assert tops - {"PKG-INFO", ".gitignore"} == expected


def test_the_installed_wheel_trains_the_first_recipe(dist: Path, tmp_path: Path) -> None:
    """In an environment with only the wheel; its dependencies are those of this environment."""
    (wheel,) = dist.glob("*.whl")
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--quiet",
        str(wheel),
    ]
    subprocess.run(install, check=True)
    (site,) = (tmp_path / "empty" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = "import limelight; print(limelight.__file__)"
    found = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(site)
    settings = ["--set", "task.data.limit=300", "--set", "train.epochs=1"]
    train = [str(tmp_path / "empty" / "bin" / "limelight"), "train", "reverse", *settings]
    done = subprocess.run(train, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "runs" / "reverse" / "report.json").read_text())["steps"] == 3
