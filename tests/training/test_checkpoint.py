"""R7: damaged checkpoints are detected. Also: which checkpoints are kept, and which is the best."""

import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import must_fail

from limelight.errors import WrongInput
from limelight.training import checkpoint
from limelight.training.checkpoint import Checkpoint


def create(step: int, score: float | None = None) -> Checkpoint:
    dice = random.Random(step)
    files = {"weights.safetensors": dice.randbytes(1009), "data.json": b'{"names": ["a", "b"]}'}
    return Checkpoint(step, {"score": score, "progress": {"step": step, "loss": 0.1}}, files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint.save(tmp_path, create(5))
    checkpoint.save(tmp_path, create(10))
    return tmp_path


def check_damage(folder: Path, file: Path, damaged: bytes) -> None:
    """The damaged newest checkpoint is skipped with a warning, and the one before it is used."""
    before = file.read_bytes()
    assert damaged != before
    file.write_bytes(damaged)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = checkpoint.newest(folder)
        assert found == create(5)
        assert [str(warning.message) for warning in caught if "step-00000010" in str(warning.message)]
    finally:
        file.write_bytes(before)


def test_two_thousand_bit_flips_are_all_detected(folder: Path) -> None:
    dice = random.Random(1)
    files = sorted((folder / "step-00000010").iterdir())
    assert len(files) == 3
    for _ in range(2000):
        file = dice.choice(files)
        content = bytearray(file.read_bytes())
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        check_damage(folder, file, bytes(content))
    assert checkpoint.newest(folder) == create(10)


def test_two_hundred_truncations_are_all_detected(folder: Path) -> None:
    dice = random.Random(2)
    files = sorted((folder / "step-00000010").iterdir())
    for _ in range(200):
        file = dice.choice(files)
        content = file.read_bytes()
        check_damage(folder, file, content[: dice.randrange(len(content))])


def test_the_check_catches_a_reader_without_checksums(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(place: Path) -> Checkpoint:
        contents = {name: (place / name).read_bytes() for name in create(5).files}
        return Checkpoint(int(place.name.removeprefix("step-")), create(5).facts, contents)

    monkeypatch.setattr(checkpoint, "read", read)
    file = folder / "step-00000010" / "weights.safetensors"
    must_fail(check_damage, folder, file, file.read_bytes()[:-1])


def test_a_missing_file_is_detected(folder: Path) -> None:
    (folder / "step-00000010" / "data.json").unlink()
    with pytest.warns(UserWarning, match=r"step-00000010/data.json: No such file"):
        assert checkpoint.newest(folder) == create(5)


def test_if_all_are_damaged_there_is_no_newest(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, create(5))
    (tmp_path / "step-00000005" / "manifest.json").write_text("{}")
    with pytest.warns(UserWarning, match="cannot be read"):
        assert checkpoint.newest(tmp_path) is None
    assert checkpoint.newest(tmp_path / "nothing") is None


def test_the_two_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    for step, score in ((1, 0.1), (2, 0.9), (3, None), (4, 0.5), (5, None)):
        checkpoint.save(tmp_path, create(step, score))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000002",
        "step-00000004",
        "step-00000005",
    ]
    assert checkpoint.best(tmp_path) == create(2, 0.9)
    assert checkpoint.newest(tmp_path) == create(5)


def test_a_checkpoint_saved_after_resuming_from_an_older_one_is_kept(tmp_path: Path) -> None:
    """Later checkpoints were damaged: saving removes them, and not the new one, whose step is lower."""
    for step, score in ((100, 0.9), (200, None), (300, None)):
        checkpoint.save(tmp_path, create(step, score))
    for step in (200, 300):
        (tmp_path / f"step-{step:08d}" / "data.json").write_text("damaged")
    with pytest.warns(UserWarning, match="is not used"):
        assert checkpoint.newest(tmp_path) == create(100, 0.9)
    checkpoint.save(tmp_path, create(150))
    assert checkpoint.newest(tmp_path) == create(150)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000100", "step-00000150"]


def test_of_equal_scores_the_newest_is_best(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, create(step, 1.0))
    assert checkpoint.best(tmp_path) == create(3, 1.0)


def check_damaged_best(folder: Path, file: Path) -> None:
    """After a bit flip in the best checkpoint the second best is used, and a warning names the file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(bytes(content))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert checkpoint.best(folder) == create(3, 0.5)
    assert any(str(file) in str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors", "data.json"])
def test_damage_of_any_file_of_the_best_gives_a_warning(tmp_path: Path, name: str) -> None:
    for step, score in ((1, 0.1), (2, 0.9), (3, 0.5)):
        checkpoint.save(tmp_path, create(step, score))
    check_damaged_best(tmp_path, tmp_path / "step-00000002" / name)


def test_the_check_catches_a_damaged_manifest_that_counts_as_the_worst_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def best_first(folder: Path) -> Iterator[Checkpoint]:
        places = sorted(checkpoint._steps(folder), key=checkpoint._score, reverse=True)
        return checkpoint._intact(places)

    for step, score in ((1, 0.1), (2, 0.9), (3, 0.5)):
        checkpoint.save(tmp_path, create(step, score))
    monkeypatch.setattr(checkpoint, "best_first", best_first)
    must_fail(check_damaged_best, tmp_path, tmp_path / "step-00000002" / "manifest.json")


def test_a_checkpoint_under_another_name_is_not_read(folder: Path) -> None:
    (folder / "step-00000010").rename(folder / "step-00000011")
    with pytest.warns(UserWarning, match="does not belong to this folder"):
        assert checkpoint.newest(folder) == create(5)


def test_a_newer_format_is_an_error_and_not_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "FORMAT", 2)
        checkpoint.save(tmp_path, create(15))
    with pytest.raises(WrongInput, match="format 2; this version reads 1"):
        checkpoint.newest(tmp_path)
