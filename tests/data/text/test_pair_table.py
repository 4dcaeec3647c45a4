"""Pairs of texts with one label each, from CSV and TSV files."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from limelight.data.dataset import SequenceData
from limelight.data.text.pair_table import PairTable
from limelight.data.text.text_column import Column, find_columns_of_pairs
from limelight.data.text.text_pair import SEPARATOR, TextPair, split_pair
from limelight.data.text.vocabulary import Words
from limelight.errors import WrongInput

ROWS = [
    (f"the {noun} {verb} {i}", f"a {noun} {other} {i}", "same" if verb == other else "other")
    for i in range(9)
    for noun in ("cat", "dog")
    for verb in ("runs", "sleeps")
    for other in ("runs", "sleeps")
]


def table(rows: Any = ROWS, header: tuple[str, ...] = ("premise", "hypothesis", "label")) -> str:
    return "".join(",".join(row) + "\n" for row in ([header] if header else []) + list(rows))


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(content)
    return path


def load(path: Path, **settings: Any) -> SequenceData:
    return PairTable(path=str(path), **{"rarest": 1, **settings}).load(1)


def everything(data: SequenceData) -> list[tuple[str, ...]]:
    found = []
    for name, split in data.splits.items():
        assert isinstance(split.targets, Tensor)
        for text, label in zip(data.texts[name], split.targets.tolist(), strict=True):
            found.append((*text.split("\t"), data.answers.names[int(label)]))
    return sorted(found)


HEADERS = [
    ("premise", "hypothesis", "label"),
    ("sentence1", "sentence2", "gold_label"),
    ("sentence_A", "sentence_B", "entailment_label"),
    ("question1", "question2", "is_duplicate"),
    ("text1", "text2", "score"),
    ("#1 String", "#2 String", "Quality"),
    ("a", "b", "class"),
    ("left", "right", "label"),
    ("left", "right", "verdict"),
    (),
]


@pytest.mark.parametrize("header", HEADERS, ids="/".join)
def test_both_texts_and_the_label_are_found_by_usual_names_or_by_length(
    tmp_path: Path, header: tuple[str, ...]
) -> None:
    settings = {"header": "yes"} if header[:1] == ("left",) else {}
    data = load(write(tmp_path / "a.csv", table(header=header)), **settings)
    assert everything(data) == sorted(ROWS)
    assert data.column is not None
    assert data.column.texts == (header[:2] or ("column 1", "column 2"))


def test_columns_in_another_order_or_among_others_are_found(tmp_path: Path) -> None:
    rows = [(label, str(i), second, first) for i, (first, second, label) in enumerate(ROWS)]
    named = table(rows, ("label", "id", "hypothesis", "premise"))
    assert everything(load(write(tmp_path / "a.csv", named))) == sorted(ROWS)
    chosen = {"first": "x", "second": "y", "label": "z"}
    content = table(rows, ("z", "id", "y", "x"))
    assert everything(load(write(tmp_path / "b.csv", content), **chosen)) == sorted(ROWS)
    with pytest.raises(
        WrongInput, match=r"b\.csv:1: the columns of the two texts and of the label are not cl"
    ):
        load(tmp_path / "b.csv", header="yes")


def test_numbers_are_answers_too(tmp_path: Path) -> None:
    rows = [(first, second, f"{i / 7:.3f}") for i, (first, second, _) in enumerate(ROWS)]
    header = ("sentence1", "sentence2", "score")
    assert load(write(tmp_path / "a.csv", table(rows, header))).answers.kind == "number"


def test_rows_without_one_of_the_texts_are_dropped_and_counted(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.csv", table([*ROWS, ("alone", "", "same"), ("", "alone", "same")])))
    assert data.notes[0] == "a.csv: 72 rows kept, 2 dropped"
    assert "text columns: 'premise' and 'hypothesis', label column: 'label'" in data.notes


def test_rows_with_the_same_texts_stay_in_one_split(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.csv", table(ROWS * 3)))
    texts = [set(split) for split in data.texts.values()]
    assert sum(map(len, texts)) == len(set().union(*texts)) == 72


def test_each_text_is_truncated_and_not_only_the_second(tmp_path: Path) -> None:
    long = [("one two three four " + first, f"five six {second}", label) for first, second, label in ROWS]
    data = load(write(tmp_path / "a.csv", table(long)), longest=3)
    assert "72 texts truncated to 3 words" in data.notes
    assert {data.reader.decode(row) for row in (data.splits["train"].inputs[i] for i in range(7))} <= {
        "one two three\tfive six a"
    }
    assert int(data.lengths("train").max()) == 7 == data.cut


# The reader

READER = TextPair(vocabulary=Words.build(["the cat runs", "a dog"], 10), longest=5)


@pytest.mark.parametrize("line", ["the cat\ta dog", "the cat ||| a dog", " the  cat |||a dog"])
def test_a_line_has_two_texts_with_a_tab_or_bars_between_them(line: str) -> None:
    assert READER.tokens(line) == ["the", "cat", SEPARATOR, "a", "dog"]
    row = READER.encode(line)
    assert (row == READER.separator).tolist() == [False, False, True, False, False]
    assert READER.item_names(row) == READER.tokens(line)
    assert READER.decode(row) == "the cat\ta dog"
    assert int(row.max()) == READER.size - 1 == READER.separator


def test_unknown_words_are_marked() -> None:
    assert READER.tokens("the bird\ta dog")[1] == "bird (unk)"
    assert torch.equal(READER.encode("the bird ||| x"), torch.tensor([*READER.encode("the bird ||| y")]))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("the cat", "the line has one text; allowed: two texts, separated by a tab or by |||"),
        ("a\tb\tc", "the line has 3 texts; allowed: two"),
        ("a ||| b ||| c", "the line has 3 texts; allowed: two"),
        ("a\t", "the second text of the line is empty"),
        ("||| b", "the first text of the line is empty"),
    ],
)
def test_other_lines_are_refused(line: str, reason: str) -> None:
    with pytest.raises(WrongInput) as caught:
        split_pair(line)
    assert str(caught.value).startswith(reason)


# Tables of inputs


@pytest.mark.parametrize(
    ("column", "content"),
    [
        (Column("premise", True, "label", "hypothesis"), "label,hypothesis,premise\nx,b 1,a 1\nx,b 2,a 2\n"),
        (Column("premise", True, "label", "hypothesis"), "premise,hypothesis\na 1,b 1\na 2,b 2\n"),
        (Column("premise", True, "label", "hypothesis"), "a 1,b 1\na 2,b 2\n"),
        (Column("column 1", False, "column 3", "column 2"), "a 1,b 1,x\na 2,b 2,x\n"),
        (Column("column 1", False, "column 3", "column 2"), "id,text1,text2\n1,a 1,b 1\n2,a 2,b 2\n"),
    ],
)
def test_the_columns_of_training_are_read_from_other_tables(
    tmp_path: Path, column: Column, content: str
) -> None:
    assert column.read(write(tmp_path / "new.csv", content)) == ["a 1\tb 1", "a 2\tb 2"]


def test_a_model_without_columns_of_its_own_reads_usual_names_or_two_columns(tmp_path: Path) -> None:
    for content in ("id,b,a\n1,y,x\n", "x,y\n"):
        path = write(tmp_path / "new.csv", content)
        assert find_columns_of_pairs(path).read(path) == ["x\ty"]
    with pytest.raises(
        WrongInput, match=r"new\.csv:1: the text columns are not clear; name them 'first' and"
    ):
        find_columns_of_pairs(write(tmp_path / "new.csv", "1,x,y\n"))
