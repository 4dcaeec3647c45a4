"""Checkpoints with correct checksums and invalid content are refused, or another checkpoint is used."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support import not_none, refused
from tiny import tiny

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.training import checkpoint
from limelight.training.checkpoint import Checkpoint
from limelight.training.weights import from_bytes, to_bytes

SMALL: dict[str, Any] = {
    "task.data.train": 300,
    "task.data.validation": 50,
    "task.data.test": 50,
    "train.epochs": 2,
    "train.perfect": 0,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return limelight.train("majority", SMALL, out=tmp_path_factory.mktemp("runs") / "majority")


def variants(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Callable[[Any], None]]:
    """Changes to a JSON value: each key removed, and each value replaced by one of another type."""
    keys = value if isinstance(value, dict) else range(min(2, len(value))) if isinstance(value, list) else ()
    for key in list(keys):

        def place(whole: Any) -> Any:
            for part in path:
                whole = whole[part]
            return whole

        def remove(whole: Any, key: Any = key, place: Callable[[Any], Any] = place) -> None:
            del place(whole)[key]

        def replace(other: Any, whole: Any, key: Any = key, place: Callable[[Any], Any] = place) -> None:
            place(whole)[key] = other

        yield remove
        others: tuple[Any, ...] = (None, "x", -1, 10**30, [], {}, [[1]])
        for other in others:
            yield partial(replace, other)
        yield from variants(value[key], (*path, key))


def forged(found: Checkpoint) -> Iterator[Checkpoint]:
    """Changed copies of a checkpoint, which are saved with correct checksums."""
    data = json.loads(found.files["data.json"])
    for part in ("facts", "data"):
        for change in variants(found.facts if part == "facts" else data):
            copy = json.loads(json.dumps(found.facts if part == "facts" else data))
            change(copy)
            if part == "facts":
                yield Checkpoint(found.step, copy, found.files)
            else:
                yield Checkpoint(
                    found.step, found.facts, found.files | {"data.json": json.dumps(copy).encode()}
                )
    weights = from_bytes(found.files["weights.safetensors"])
    first = next(iter(weights))
    for name in ("weights.safetensors", "training.safetensors"):
        for content in (b"", b"{}", b"\x80\x04K\x01.", b"\xff" * 64, to_bytes({"x": torch.ones(2)})):
            yield Checkpoint(found.step, found.facts, found.files | {name: content})
        yield Checkpoint(found.step, found.facts, {k: v for k, v in found.files.items() if k != name})
    for other in (torch.ones(1), torch.ones(2, 2, 2), weights[first][:-1]):
        changed = to_bytes(weights | {first: other})
        yield Checkpoint(found.step, found.facts, found.files | {"weights.safetensors": changed})


def use(path: Path) -> None:
    """Use a run in all ways that read a checkpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = limelight.open_run(path)
        opened.predict(["a b b a c"])
        opened.see("a b b a c")
        opened.evaluate()


def test_a_forged_checkpoint_never_causes_an_unexpected_exception(run: Run, tmp_path: Path) -> None:
    found = checkpoint.best(run.path / "checkpoints")
    assert found is not None
    every = list(forged(found))
    assert len(every) > 300
    alone = tmp_path / "alone"
    shutil.copytree(run.path, alone)
    count = 0
    for one in every:
        shutil.rmtree(alone / "checkpoints")
        checkpoint.save(alone / "checkpoints", one)
        count += bool(refused(use, alone))  # other exceptions than WrongInput are raised
    assert count > 100


def test_if_the_best_checkpoint_is_forged_the_next_one_is_used_with_a_warning(
    run: Run, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    found = checkpoint.best(run.path / "checkpoints")
    assert found is not None
    shutil.rmtree(copy / "checkpoints")
    checkpoint.save(copy / "checkpoints", found)
    facts = found.facts | {"score": 2.0, "progress": found.facts["progress"] | {"step": 1000}}
    for files in (
        {"weights.safetensors": b"no weights"},
        {"weights.safetensors": to_bytes({"x": torch.ones(2)})},
        {"data.json": b"{}"},
        {"data.json": b"\xff"},
    ):
        checkpoint.save(copy / "checkpoints", Checkpoint(1000, facts, found.files | files))
        with pytest.warns(UserWarning, match="step.*1000.*this checkpoint is not used"):
            opened = limelight.open_run(copy)
        assert opened.predict(["a b b a c"]) == run.predict(["a b b a c"])


def test_a_run_is_not_resumed_from_a_forged_checkpoint(tmp_path: Path) -> None:
    """Training also reads the state of the optimiser."""
    wanted = {key: value for key, value in tiny().model_dump().items() if key == "seed"}
    settings = SMALL | wanted | {"train.save_every": "1 steps", "train.epochs": 1}
    limelight.train("majority", settings, out=tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    found = checkpoint.newest(folder)
    assert found is not None
    place = folder / f"step-{found.step:08d}"
    shutil.rmtree(place)
    for files in ({"training.safetensors": b""}, {"training.safetensors": to_bytes({"x": torch.ones(2)})}):
        checkpoint.save(folder, Checkpoint(found.step, found.facts, found.files | files))
        with pytest.warns(UserWarning, match="this checkpoint is not used"):
            limelight.train(tmp_path / "run", resume=True)
        assert not_none(checkpoint.newest(folder)).files == found.files


def test_a_run_without_a_usable_checkpoint_is_refused(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    found = not_none(checkpoint.best(run.path / "checkpoints"))
    shutil.rmtree(copy / "checkpoints")
    checkpoint.save(
        copy / "checkpoints", Checkpoint(found.step, found.facts, found.files | {"data.json": b"{}"})
    )
    with (
        pytest.warns(UserWarning, match="data.json: reader: Field required: this checkpoint is not used"),
        pytest.raises(WrongInput, match="has no valid checkpoint"),
    ):
        limelight.open_run(copy)
