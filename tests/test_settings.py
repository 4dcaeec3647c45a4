"""Every setting can be found: listed, described, suggested for a wrong key, and written to a file to edit."""

import json
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command import command
from support import must_fail

from limelight.config import flatten
from limelight.experiment.config import experiment, sections_of
from limelight.experiment.template import commented_toml
from limelight.recipes import recipes
from limelight.settings import Setting, suggest_key

ROOT = Path(__file__).parent.parent
SETTINGS = [setting for section in sections_of() for setting in section.settings]


def check_described(setting: Setting) -> None:
    assert setting.meaning, setting.key
    assert setting.allowed not in ("", "list"), setting.key


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_every_setting_has_a_meaning_and_allowed_values(setting: Setting) -> None:
    check_described(setting)


def test_a_setting_without_meaning_is_found() -> None:
    must_fail(check_described, Setting("train.more", "integer", 1, "", 1))


@pytest.mark.parametrize("name", recipes())
def test_the_settings_of_a_recipe_are_all_of_its_values(name: str) -> None:
    wanted = experiment(name)
    found = {one.key: one.value for section in sections_of(wanted) for one in section.settings}
    assert found == flatten(wanted.model_dump(mode="json"))


@pytest.mark.parametrize("name", recipes())
def test_the_file_to_edit_is_the_same_experiment(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(commented_toml(experiment(name)), "utf-8")
    assert experiment(tmp_path / "mine.toml") == experiment(name)


def test_each_default_of_the_file_to_edit_can_be_used(tmp_path: Path) -> None:
    text = commented_toml(experiment("digits"))
    lines = [
        line.removeprefix("#") if line[:1] == "#" and line[1:2] not in " " else line
        for line in text.splitlines()
    ]
    complete = "\n".join(line for line in lines if not line.endswith(" ="))
    assert tomllib.loads(complete)["train"]["clip"] == 1.0
    assert "clip" not in tomllib.loads(text)["train"]
    (tmp_path / "mine.toml").write_text(complete, "utf-8")
    assert experiment(tmp_path / "mine.toml") == experiment("digits")


@pytest.mark.parametrize(
    ("recipe", "given", "meant"),
    [
        ("reverse", "model.layers", "model.depth"),
        ("reverse", "layers", "model.depth"),
        ("translate", "model.layers", "model.encoder_depth"),
        ("reverse", "heads", "model.heads"),
        ("reverse", "n_head", "model.heads"),
        ("reverse", "train.lr", "train.rate"),
        ("reverse", "model.lr", "train.rate"),
        ("reverse", "batch-size", "train.batch"),
        ("reverse", "model.heds", "model.heads"),
        ("cifar10", "augmentation", "task.augment"),
        ("text", "vocab_size", "task.data.vocabulary_size"),
        ("multi30k", "vocab_size", "task.vocabulary.size"),
        ("digits", "d_model", "model.width"),
        ("reverse", "xyzzy", None),
    ],
)
def test_a_wrong_key_suggests_the_right_one(recipe: str, given: str, meant: str | None) -> None:
    sections = sections_of(experiment(recipe))
    known = [one.key for section in sections for one in section.settings]
    assert suggest_key(given, known + [section.name for section in sections if section.name]) == meant


def test_settings_are_listed_by_section(capsys: pytest.CaptureFixture[str]) -> None:
    listed = command("settings", "train").stdout
    assert "train.epochs = 10" in listed
    assert "model." not in listed
    rows = json.loads(command("settings", "--json").stdout)
    assert {row["key"] for row in rows} == {one.key for one in SETTINGS}
    assert "did you mean 'train'?" in command("settings", "trian").stderr
    heads = json.loads(command("settings", "heads", "--json").stdout)
    assert {row["key"] for row in heads} == {"model.heads"}


def test_explain_lists_the_settings_of_a_recipe() -> None:
    listed = command("explain", "reverse", "--set", "model.heads=4", "--settings").stdout
    assert "model.heads = 4 (default 1)" in listed
    assert "model.patch" not in listed


def test_init_writes_a_file_that_trains(tmp_path: Path) -> None:
    written = command("init", "majority", "--set", "task.data.limit=50", "--set", "train.epochs=1").stdout
    (tmp_path / "mine.toml").write_text(written, "utf-8")
    done = command("train", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "3"], "--set train.epochs=3"),
        (["--heads=2"], "--set model.heads=2"),
        (["--batch-size", "8"], "--set train.batch=8"),
        (["--lr"], "--set train.rate=VALUE"),
    ],
)
def test_an_option_that_is_a_setting_is_explained(options: list[str], message: str) -> None:
    done = command("train", "reverse", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_page_of_all_settings_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "settings.py"))["page"]()
    assert (ROOT / "docs" / "settings.md").read_text("utf-8") == made, "run python docs/settings.py"


@pytest.mark.parametrize("word", ["off", "none", "false"])
def test_augmentation_can_be_switched_off(word: str) -> None:
    value = False if word == "false" else word
    wanted = experiment("cifar10", {"task.augment": value})
    assert not any(flatten(wanted.model_dump())[f"task.augment.{key}"] for key in ("crop", "flip", "mixup"))


def test_listing_recipes_does_not_import_torch() -> None:
    program = (
        "import sys; from limelight.cli.runs import recipes; recipes();"
        "sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL).returncode == 0
