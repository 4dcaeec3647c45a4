"""The task: loss, predictions, records, resuming."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from command import command, python
from small_recipes import small
from support import must_fail, refused
from tiny import StopAt

import limelight
from limelight.data.batching import Batch
from limelight.data.text.text_readers import TextReader
from limelight.data.text.text_vocabulary import TextBytes, TextSubwords, TextWords
from limelight.experiment import Run
from limelight.models.masked_encoder import MaskedEncoder, MaskedEncoderConfig
from limelight.tasks.masked.filling import best_fillings, fill, read_masked, write_masked
from limelight.tasks.masked.task import Masked, MaskedState
from limelight.training.interrupt import Interrupted

READER = TextWords(known=("the", "a", "cat", "dog", "runs", "sleeps", "on", "mat"))
SHAPE: dict[str, Any] = {"width": 12, "heads": 2, "depth": 1, "hidden": 17}


def task_of(reader: TextReader = READER, **state: Any) -> Masked:
    return Masked(
        MaskedState(**{"reader": reader, "context": 29, "share": 0.15, "whole_words": False} | state)
    )


def batch_of(index: list[int], length: int) -> Batch:
    rows = [
        torch.randint(2, READER.size, (length,), generator=torch.Generator().manual_seed(i)) for i in index
    ]
    tokens = torch.stack(rows)
    return Batch(tokens, tokens, torch.tensor(index))


def model_of(task: Masked) -> MaskedEncoder:
    torch.manual_seed(3)
    return MaskedEncoderConfig(**SHAPE, dropout=0.0).build(task.sizes)


def test_the_loss_is_the_cross_entropy_of_the_hidden_tokens() -> None:
    task, batch = task_of(), batch_of([0, 1, 2], 19)
    model = model_of(task).train()
    torch.manual_seed(7)
    scores = task.loss(model, batch)
    torch.manual_seed(7)
    random = torch.rand(3, 19, 3)
    chosen = task.masking.choose(batch.inputs, None, random[..., 0])
    logits = model(task.masking.replace(batch.inputs, chosen, random[..., 1:]))[chosen]
    expected = torch.nn.functional.cross_entropy(logits, batch.inputs[chosen], reduction="sum")
    torch.testing.assert_close(scores.loss, expected)
    assert int(scores.sums["accuracy"]) == int((logits.argmax(-1) == batch.inputs[chosen]).sum())
    assert task.predictions(batch) == int(chosen.sum())


def check_same_each_time(task: Masked, model: MaskedEncoder) -> None:
    """The loss of an example does not depend on the batch, nor on random numbers drawn before."""
    together = task.loss(model, batch_of([4, 9, 5], 19)).loss
    torch.rand(11)
    alone = [task.loss(model, batch_of([i], 19)).loss for i in (5, 4, 9)]
    torch.testing.assert_close(torch.stack(alone).sum(), together)


@torch.no_grad()
def test_in_evaluation_the_same_tokens_are_hidden_each_time_and_in_training_others() -> None:
    task = task_of()
    model = model_of(task)
    check_same_each_time(task, model.eval())
    must_fail(check_same_each_time, task, model.train())


@torch.no_grad()
def test_padding_does_not_change_what_is_hidden_in_evaluation() -> None:
    task, batch = task_of(), batch_of([4, 9], 17)
    model = model_of(task).eval()
    padded = torch.nn.functional.pad(batch.inputs, (0, 6))
    longer = Batch(padded, padded, batch.index, torch.tensor([17, 17]))
    torch.testing.assert_close(task.loss(model, longer).loss, task.loss(model, batch).loss)


SUBWORDS = TextSubwords.build(["the cat sleeps on the mat and the dog runs on the mat\n" * 30], 280)


@pytest.mark.parametrize("reader", [READER, SUBWORDS, TextBytes()], ids=["words", "subwords", "bytes"])
def test_a_text_with_masks_is_read_as_it_was_written(reader: TextReader) -> None:
    row = reader.encode("the dog runs on the mat\nthe cat sleeps")
    for places in ([1], [0, 3], [len(row) - 1], [1, 2]):
        hidden = torch.zeros(len(row), dtype=torch.bool)
        hidden[places] = True
        text = write_masked(row, hidden, reader)
        assert text.count("[mask]") == len(places)
        read, found = read_masked(text, reader)
        assert read.tolist() == row.masked_fill(hidden, 0).tolist()
        assert found.tolist() == places
        assert fill(text, row[hidden].tolist(), reader) == reader.decode(row)


def test_masks_are_written_in_several_ways() -> None:
    expected = [2, 0, 6, 0]
    for text in ("the [mask] runs ___", "The [MASK] runs _____", "the[mask]runs[mask]"):
        assert read_masked(text, READER)[0].tolist() == expected
        assert fill(text, [4, 8], READER).lower() == "the cat runs on"


def test_unknown_words_of_a_text_remain() -> None:
    row, places = read_masked("The Quux [mask] it", READER)
    assert row.tolist() == [2, 0, 0, 0]
    assert places.tolist() == [2]
    assert fill("The Quux [mask] it", [6], READER) == "The Quux runs it"


def test_the_best_fillings_are_those_of_all_combinations() -> None:
    p = torch.rand(3, 5).softmax(-1)
    found = best_fillings(p, 7)
    every = sorted(
        (float(p[0, i] * p[1, j] * p[2, k]), (i, j, k)) for i in range(5) for j in range(5) for k in range(5)
    )[::-1]
    assert [chosen for _, chosen in found] == [chosen for _, chosen in every[:7]]
    assert [q for q, _ in found] == pytest.approx([q for q, _ in every[:7]])


TEXT = "".join(
    f"the {'cat' if i % 2 else 'dog'} {'sleeps' if i % 2 else 'runs'} on the mat\n" for i in range(300)
)
LINES: dict[str, Any] = {
    "task.data.examples": "documents",
    "task.data.separator": "\n",
    "task.data.vocabulary": "words",
    "task.data.context": 13,
    "model.width": 20,
    "model.heads": 2,
    "model.hidden": 31,
    "model.depth": 2,
    "model.dropout": 0.0,
    "train.epochs": 14,
    "train.rate": 0.01,
    "train.average": 0.5,
    "train.perfect": 0,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("masked")
    (folder / "lines.txt").write_text(TEXT)
    return limelight.train("masked", LINES, folder / "run", data=folder / "lines.txt")


def test_a_trained_model_fills_in_what_the_rest_of_the_text_decides(trained: Run) -> None:
    answers = trained.predict(["The cat [mask] on the mat", "", "the ___ runs on the mat"])
    assert [one.text for one in answers] == ["The cat sleeps on the mat", "", "the dog runs on the mat"]
    assert all(one.probability is not None and one.probability > 0.8 for one in (answers[0], answers[2]))


def test_several_answers_are_ranked_by_their_probability(trained: Run) -> None:
    answer = trained.predict("the cat [mask] on the mat", n_best=3)[0]
    found = [one.probability or 0.0 for one in (answer, *answer.others)]
    assert found == sorted(found, reverse=True)
    assert len({one.text for one in (answer, *answer.others)}) == 3


def test_a_record_has_the_candidates_of_every_token(trained: Run) -> None:
    record = trained.see("the cat [mask] on the mat").records[0]
    assert record.sides["source"][2] == "[mask]"
    assert len(record.steps) == 6
    assert record.steps[2][0].text == "sleeps"
    assert record.answer == "the cat sleeps on the mat"
    assert [one.part for one in record.maps] == ["encoder", "encoder"]


def test_the_report_explains_its_metrics(trained: Run) -> None:
    metrics = trained.evaluate()
    assert metrics.keys() == {"loss", "accuracy", "perplexity"}
    assert metrics.keys() <= trained.task.metric_descriptions.keys()
    assert metrics == trained.evaluate()


def test_other_text_is_evaluated_with_the_vocabulary_of_training(trained: Run, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("the cat sleeps on the mat\nthe dog runs on the mat\n" * 5)
    assert trained.evaluate(data=tmp_path / "new.txt")["accuracy"] > 0.3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("the cat", "input 1: nothing is missing in the text; write [mask] where a token is"),
        ("the " * 14 + "___", "input 1: 15 tokens; this model reads 13"),
        (b"image", "input 1: this model reads text"),
    ],
)
def test_an_invalid_input_is_refused(given: Any, message: str, trained: Run) -> None:
    assert refused(trained.predict, [given]) == message


def test_an_encoder_starts_from_a_masked_run(trained: Run, tmp_path: Path) -> None:
    rows = [f"the {'cat' if i % 2 else 'dog'} number {i % 7},{'x' if i % 2 else 'y'}" for i in range(60)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    settings = {"train.epochs": 1, "train.epoch_steps": 1, "train.rate": 1e-9, "train.average": 0.0}
    for vocabulary in ("ngrams", "words"):
        run = limelight.train(
            "text",
            settings | {"task.data.vocabulary": vocabulary},
            tmp_path / vocabulary,
            data=tmp_path / "rows.csv",
            start=trained.path,
        )
        there, here = trained.model.state_dict(), run.model.state_dict()
        taken = [name for name in here if name.startswith("encoder.")]
        assert len(taken) > 10
        for name in taken:
            torch.testing.assert_close(here[name], there[name], rtol=0, atol=1e-6)
        again = limelight.open_run(run.path)
        assert again.evaluate() == run.evaluate()  # the same vocabulary and texts are read again
        assert str(again.predict("the cat")[0]) in ("x", "y")
        assert again.evaluate(data=tmp_path / "rows.csv").keys() == run.evaluate().keys()


# A run that is interrupted or killed


def settings_of(folder: Path, **others: Any) -> tuple[dict[str, Any], Path]:
    settings, data = small("masked", folder)
    assert data is not None
    more = {"train.epochs": 3, "train.save_every": "2 steps", "model.dropout": 0.1, "train.perfect": 0}
    return settings | more | others, data


def written(run: Path) -> dict[str, bytes]:
    """The metrics, and the newest weights with the state of the optimiser."""
    newest = max((run / "checkpoints").glob("step-*"))
    files = [run / "metrics.jsonl", *newest.glob("*.safetensors")]
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


@pytest.mark.parametrize("examples", ["windows", "documents"])
def test_a_run_resumed_at_any_step_ends_with_the_same_bits(examples: str, tmp_path: Path) -> None:
    own = {"task.data.examples": examples, "task.data.separator": "\n", "task.whole_words": True}
    settings, data = settings_of(tmp_path, **own)
    whole = limelight.train("masked", settings, tmp_path / "whole", data=data)
    steps = whole.report["steps"]
    for step in (1, 2, steps - 1):
        out = tmp_path / str(step)
        with pytest.raises(Interrupted):
            limelight.train("masked", settings, out, data=data, watcher=StopAt(step))
        limelight.train("masked", settings, out, data=data, resume=True)
        assert written(out) == written(tmp_path / "whole")


KILLED = """
import os, signal, sys
import limelight
from limelight.training.progress import Watcher

class Dies(Watcher):
    def step(self, step, tokens, metrics):
        if step == 3:
            os.kill(os.getpid(), signal.SIGKILL)

limelight.train("masked", eval(sys.argv[1]), sys.argv[2], data=sys.argv[3], watcher=Dies())
"""


def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    settings, data = settings_of(tmp_path)
    limelight.train("masked", settings, tmp_path / "whole", data=data)
    done = python(KILLED, repr(settings), str(tmp_path / "killed"), str(data))
    assert done.returncode == -signal.SIGKILL
    limelight.train("masked", settings, tmp_path / "killed", data=data, resume=True)
    assert written(tmp_path / "killed") == written(tmp_path / "whole")


# Bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"a few words", "needed: more than task.data.context = 128"),
        (b"caf\xe9 au lait\n" * 100, "not UTF-8"),
        (b"\0" * 5_000, "text"),
    ],
)
def test_a_file_without_enough_text_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_bytes(content)
    done = command(
        "train",
        "masked",
        "--data",
        str(tmp_path / "data.txt"),
        "--out",
        str(tmp_path / "run"),
        "--set",
        "task.data.vocabulary=words",
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_language_model_reads_windows() -> None:
    message = refused(limelight.train, "language", {"task.data.examples": "documents"})
    assert "data.examples is 'documents'; allowed for this task: windows" in message
