"""The task of one label per token: metrics, predictions and records."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from command import command
from support import must_fail
from torch import Tensor, nn

import limelight
from limelight.data.batching import Batch
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.config import experiment
from limelight.tasks.tag.task import Tag
from limelight.tasks.task import Task
from limelight.view.record import Record

PEOPLE, PLACES = ("Ada", "Grace", "Alan Turing", "Kurt"), ("Oslo", "New York", "Rome")
SMALL: dict[str, Any] = {
    "model.width": 16,
    "model.heads": 2,
    "model.depth": 1,
    "model.dropout": 0.0,
    "train.epochs": 2,
    "train.batch": 8,
    "train.rate": 1e-2,
    "train.warmup": 10,
}


def sentence(i: int) -> list[tuple[str, str]]:
    """ "Alan Turing likes New York 3 ." with entities of several tokens."""
    pairs = []
    for name, kind in (
        (PEOPLE[i % 4], "PER"),
        ("likes", ""),
        (PLACES[i % 3], "LOC"),
        (str(i), ""),
        (".", ""),
    ):
        first, *rest = name.split()
        pairs.append((first, f"B-{kind}" if kind else "O"))
        pairs += [(one, f"I-{kind}") for one in rest]
    return pairs


def columns(sentences: list[list[tuple[str, str]]]) -> str:
    return "\n".join("".join(f"{token} x {label}\n" for token, label in one) for one in sentences)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("names")
    (folder / "names.conll").write_text(columns([sentence(i) for i in range(96)]))
    made = limelight.train("tag", SMALL, out=folder / "run", data=folder / "names.conll")
    return limelight.open_run(made.path)


def test_entities_have_precision_recall_and_f1_overall_and_by_type(run: Run) -> None:
    metrics = run.report["metrics"]["test"]
    assert {"loss", "accuracy", "f1", "precision", "recall"} <= metrics.keys()
    assert metrics["f1"] > 0.9
    assert run.report["classes"].keys() == {"LOC", "PER"}
    assert run.report["confusion"] == []
    assert run.report["baseline"]["model"] == "the most frequent label of each token"
    shown = command("evaluate", str(run.path)).stdout
    assert "test f1" in shown
    assert "PER" in shown


def test_an_answer_has_each_token_with_its_label(run: Run) -> None:
    line = "Alan Turing likes Rome 3 ."
    (answer,) = run.predict(line)
    assert answer.text == "Alan/B-PER Turing/I-PER likes/O Rome/B-LOC 3/O ./O"
    assert answer.labels[0] == ("Alan", "B-PER")
    (shown,) = json.loads(command("predict", str(run.path), line, "--json").stdout)
    assert shown["labels"][:2] == [["Alan", "B-PER"], ["Turing", "I-PER"]]
    assert [str(one) for one in run.predict(["", line])] == ["", answer.text]


INPUTS = {
    "lines.txt": "Ada likes Rome 3 .\nKurt likes Oslo 5 .\n",
    "tokens.txt": "Ada\nlikes\nRome\n3\n.\n\nKurt\nlikes\nOslo\n5\n.\n",
    "labelled.conll": "Ada x O\nlikes x O\nRome x O\n3 x O\n. x O\n\n"
    "Kurt x O\nlikes x O\nOslo x O\n5 x O\n. x O\n",
    "unlabelled.tsv": "Ada\tx\nlikes\tx\nRome\tx\n3\tx\n.\tx\n\nKurt\tx\nlikes\tx\nOslo\tx\n5\tx\n.\tx\n",
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_lines_or_files_in_columns_with_or_without_labels(
    run: Run, name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(INPUTS[name])
    done = command("predict", str(run.path), str(tmp_path / name))
    assert done.stdout.splitlines() == [
        "Ada/B-PER likes/O Rome/B-LOC 3/O ./O",
        "Kurt/B-PER likes/O Oslo/B-LOC 5/O ./O",
    ]


def test_other_files_are_evaluated_and_new_labels_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.conll").write_text(columns([sentence(i) for i in range(96, 103)]))
    assert run.evaluate(data=tmp_path / "new.conll")["f1"] > 0.9
    (tmp_path / "other.conll").write_text("Ada B-ANIMAL\n")
    with pytest.raises(
        WrongInput, match=r"other\.conll:1: a label of the sentence is 'B-ANIMAL'; allowed: one"
    ):
        run.evaluate(data=tmp_path / "other.conll")


def test_a_record_has_the_candidates_of_each_token(run: Run) -> None:
    (record,) = run.record(["Ada likes Rome 3 ."])
    assert isinstance(record, Record)
    assert record.stepped == "source"
    assert record.sides["source"] == ("Ada", "likes", "Rome", "3", ".")
    assert [step[0].text for step in record.steps] == ["B-PER", "O", "B-LOC", "O", "O"]


def test_with_subwords_only_the_first_item_of_a_token_has_a_label(tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text(columns([sentence(i) for i in range(64)]))
    settings = SMALL | {
        "task.data.vocabulary": "subwords",
        "task.data.vocabulary_size": 40,
        "train.epochs": 1,
    }
    run = limelight.train("tag", settings, out=tmp_path / "run", data=tmp_path / "names.conll")
    (record,), (answer,) = run.record(["Ada likes Rome"]), run.predict("Ada likes Rome")
    assert isinstance(record, Record)
    assert len(record.steps) == len(record.sides["source"]) > 3
    firsts = [step for step in record.steps if step]
    assert [step[0].text for step in firsts] == [label for _, label in answer.labels]
    assert [token for token, _ in answer.labels] == ["Ada", "likes", "Rome"]


# Metrics


class Fixed(nn.Module):
    """Gives every item the label 0, with certainty."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.labels = labels

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        logits = torch.zeros(*inputs.shape[:2], self.labels)
        logits[..., 0] = 100.0
        return logits


def loaded(**settings: Any) -> tuple[Task[Any], Any]:
    few = {"task.data.train": 60, "task.data.validation": 20, "task.data.test": 31}
    return experiment("tag", few | settings).task.load(1)


def check_counts(task: Task[Any], batch: Batch, tokens: int, right: int) -> None:
    scores = task.loss(Fixed(task.sizes.outputs), batch)
    assert task.predictions(batch) == tokens
    assert int(scores.sums["accuracy"]) == right


@pytest.mark.parametrize("vocabulary", ["affixes", "words"])
def test_accuracy_is_over_tokens_without_padding(vocabulary: str) -> None:
    task, data = loaded(**{"task.data.vocabulary": vocabulary})
    batch = data.batch("test", torch.arange(31))
    assert batch.lengths is not None
    rows = [data.splits["test"].targets[i].tolist() for i in range(31)]
    tokens = sum(len(text.split()) for text in data.texts["test"])
    right = sum(row.count(1) for row in rows)  # label 0 is the target 1
    check_counts(task, batch, tokens, right)
    must_fail(check_counts, task, batch, batch.inputs.shape[0] * batch.inputs.shape[1], right)


def test_the_baseline_is_the_most_frequent_label_of_each_token() -> None:
    task, data = loaded()
    assert isinstance(task, Tag)

    def pairs(split: str) -> list[tuple[str, int]]:
        targets = data.splits[split].targets
        return [
            (token, label)
            for i, text in enumerate(data.texts[split])
            for token, label in zip(text.split(), targets[i].tolist(), strict=True)
        ]

    known = Counter(pairs("train"))
    tokens = {token for token, _ in known}
    new = Counter(dict(reversed(pairs("train"))).values()).most_common(1)[0][0]
    right = [
        label == (max(range(1, 13), key=lambda one: known[token, one]) if token in tokens else new)
        for token, label in pairs("test")
    ]
    found = task.baseline(data, "test")
    assert found is not None
    assert found.value == pytest.approx(sum(right) / len(right), abs=0.01)  # ties
