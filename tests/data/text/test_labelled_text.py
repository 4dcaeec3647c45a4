"""Labelled texts from CSV and TSV files."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support import must_fail, mutated
from torch import Tensor

from limelight.config import read
from limelight.data.dataset import SequenceData
from limelight.data.text.labelled_text import LabelledText
from limelight.data.text.symbols import Answers
from limelight.errors import WrongInput
from limelight.experiment import train
from limelight.training.progress import Watcher


class Heard(Watcher):
    def __init__(self) -> None:
        self.notes = list[str]()

    def note(self, text: str) -> None:
        self.notes.append(text)


ROWS = [
    (f"this film is {word} {i}", label)
    for i in range(37)
    for word, label in (("dull", "bad"), ("fun", "good"))
]


def csv_of(rows: Any = ROWS, header: str = "text,label\n") -> str:
    return header + "".join(f"{text},{label}\n" for text, label in rows)


def write(path: Path, content: str | bytes = csv_of()) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(path: Path, seed: int = 1, **settings: Any) -> SequenceData:
    # Characters, because held-out words would be unknown.
    return LabelledText(path=str(path), **{"rarest": 1, "vocabulary": "characters", **settings}).load(seed)


def error_message(path: Path, **settings: Any) -> str:
    with pytest.raises(WrongInput) as caught:
        load(path, **settings)
    return str(caught.value)


def pairs(data: SequenceData, split: str) -> list[tuple[str, str]]:
    """The texts and labels of a split."""
    examples = data.splits[split]
    assert isinstance(examples.targets, Tensor)
    labels = [data.answers.names[int(i)] for i in examples.targets]
    return [(data.reader.decode(examples.inputs[i]), label) for i, label in enumerate(labels)]


def everything(data: SequenceData) -> list[tuple[str, str]]:
    return sorted(pair for split in data.splits for pair in pairs(data, split))


def test_every_row_is_in_exactly_one_split_with_its_label(tmp_path: Path) -> None:
    data = load(write(tmp_path / "films.csv"))
    assert everything(data) == sorted(ROWS)
    assert {name: len(split) for name, split in data.splits.items()} == {
        "train": 60,
        "validation": 7,
        "test": 7,
    }
    assert data.answers.names == ("bad", "good")
    assert data.notes == (
        "films.csv: 74 rows kept, 0 dropped",
        "text column: 'text', label column: 'label'",
        "2 classes in training: bad 29, good 31",
    )


def test_labels_that_count_the_rows_give_a_warning(tmp_path: Path) -> None:
    rows = [(text, str(i)) for i, (text, _) in enumerate(ROWS)]
    notes = load(write(tmp_path / "a.csv", csv_of(rows, "text,id\n"))).notes
    assert notes[-1].startswith("warning: all labels are different integers; is 'id' an id? choose with")
    halves = [(text, str(i // 2)) for i, (text, _) in enumerate(ROWS)]
    assert not any(
        note.startswith("warning") for note in load(write(tmp_path / "b.csv", csv_of(halves))).notes
    )


def test_the_seed_determines_what_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path / "films.csv")

    def check(seed: int) -> None:
        assert load(path, seed).digest == load(path, 1).digest

    check(1)
    must_fail(check, 2)


def test_rows_with_the_same_text_stay_in_one_split(tmp_path: Path) -> None:
    twice = [(text.upper() if i % 2 else text, label) for i in range(5) for text, label in ROWS]

    def check(rows: Any) -> None:
        data = load(write(tmp_path / "films.csv", csv_of(rows)))
        texts = [{text.lower() for text, _ in pairs(data, split)} for split in data.splits]
        assert len(everything(data)) == 5 * len(ROWS)
        assert [len(split) for split in texts] == [60, 7, 7]
        assert sum(map(len, texts)) == len(set.union(*texts))

    check(twice)
    must_fail(check, [(f"{text} {i}", label) for i, (text, label) in enumerate(twice)])


@pytest.mark.parametrize("seed", range(7))
def test_a_label_that_occurs_once_is_in_training(tmp_path: Path, seed: int) -> None:
    data = load(write(tmp_path / "films.csv", csv_of([*ROWS, ("neither fish nor fowl", "odd")])), seed)
    assert ("neither fish nor fowl", "odd") in pairs(data, "train")


def test_without_a_test_share_there_is_no_test_split(tmp_path: Path) -> None:
    assert list(load(write(tmp_path / "films.csv"), test=0.0).splits) == ["train", "validation"]


@pytest.mark.parametrize("dev", ["dev", "valid", "val", "validation"])
def test_the_files_of_a_folder_define_the_splits(tmp_path: Path, dev: str) -> None:
    write(tmp_path / "train.csv", csv_of(ROWS[:53]))
    write(
        tmp_path / f"{dev}.tsv", "label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in ROWS[53:])
    )
    data = load(tmp_path)
    assert list(data.splits) == ["train", "validation"]
    assert pairs(data, "train") == ROWS[:53]
    assert [label for _, label in pairs(data, "validation")] == [label for _, label in ROWS[53:]]
    write(tmp_path / "test.csv", csv_of(ROWS[7:18]))
    assert pairs(load(tmp_path), "test") == ROWS[7:18]


def test_without_a_dev_file_validation_is_held_out_from_training(tmp_path: Path) -> None:
    write(tmp_path / "train.csv")
    assert [len(split) for split in load(tmp_path).splits.values()] == [60, 7, 7]
    write(tmp_path / "test.csv", csv_of(ROWS[:11]))
    data = load(tmp_path)
    assert [(name, len(split)) for name, split in data.splits.items()] == [
        ("train", 67),
        ("validation", 7),
        ("test", 11),
    ]


def test_the_vocabulary_is_built_from_training_only(tmp_path: Path) -> None:
    write(tmp_path / "train.csv")
    write(tmp_path / "dev.csv", csv_of([("zebra film", "bad")]))
    assert pairs(load(tmp_path, vocabulary="words"), "validation") == [("<unk> film", "bad")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", csv_of()),
        ("a.csv", "\ufeff" + csv_of()),
        ("a.csv", csv_of().replace("\n", "\r\n")),
        ("a.csv", csv_of().removesuffix("\n")),
        ("a.csv", csv_of(header="")),
        ("a.csv", csv_of(header="Review,Sentiment\n")),
        ("a.csv", csv_of(header="what it says,mood\n")),
        ("a.csv", csv_of().replace(",", ";")),
        ("a.csv", csv_of().replace(",", "\t")),
        ("a.table", csv_of().replace(",", ";")),
        ("a.tsv", csv_of(header="").replace(",", "\t")),
        ("a.txt", csv_of().replace(",", "\t")),
        ("a.tsv", "".join(f'{label}\t"{text}"\n' for text, label in ROWS)),
        ("a.csv", "".join(f'"{label}","{text}"\n' for text, label in ROWS)),
        ("a.csv", "id,comment,class\n" + "".join(f"{i},{t},{label}\n" for i, (t, label) in enumerate(ROWS))),
    ],
)
def test_separators_and_line_endings_do_not_change_the_rows(tmp_path: Path, name: str, content: str) -> None:
    assert everything(load(write(tmp_path / name, content))) == sorted(ROWS)


def test_columns_are_selected_by_name(tmp_path: Path) -> None:
    content = "a,b,c\n" + "".join(f"x{i % 2},{text},{label}\n" for i, (text, label) in enumerate(ROWS))
    assert everything(load(write(tmp_path / "a.csv", content), text="b", label="c")) == sorted(ROWS)
    bare = write(tmp_path / "b.csv", content.removeprefix("a,b,c\n"))
    assert everything(load(bare, text="column 2", label="column 3")) == sorted(ROWS)


@pytest.mark.parametrize("mark", ["\u2028", "\u0085", "\r", "\x0b", "\x0c", "\x1e"])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, mark: str, separator: str) -> None:
    lines = [f"{text}{mark}and{mark}more{separator}{label}\n" for text, label in ROWS]

    def check(content: str) -> None:
        data = load(write(tmp_path / "films.csv", content))
        assert everything(data) == sorted((f"{text} and more", label) for text, label in ROWS)

    check("".join(lines))
    must_fail(check, "".join(lines[1:]))


def test_quoted_fields_may_contain_separators_line_feeds_and_quotes(tmp_path: Path) -> None:
    odd = [('a, b "c"\nd', "bad"), ('"e" f', "good")]
    quoted = [('"{}"'.format(text.replace('"', '""')), label) for text, label in odd]
    data = load(write(tmp_path / "a.csv", csv_of([*quoted, *ROWS])), vocabulary="characters")
    assert {('a, b "c" d', "bad"), ('"e" f', "good")} < set(everything(data))


def test_in_files_with_tabs_quotes_are_text_unless_they_enclose_a_field(tmp_path: Path) -> None:
    texts = {
        '"Up" and "down"': '"Up" and "down"',
        '"so ""it"" goes"': 'so "it" goes',
        'a "b': 'a "b',
        '"dull': '"dull',
    }
    content = "".join(f"{text}\t{label}\n" for text, label in [*((text, "bad") for text in texts), *ROWS])
    data = load(write(tmp_path / "a.tsv", content), vocabulary="characters")
    assert {(text, "bad") for text in texts.values()} < set(everything(data))


def test_kept_and_dropped_rows_add_up_to_all_rows(tmp_path: Path) -> None:
    content = csv_of([*ROWS[:7], ("", "bad"), (" ", "good"), *ROWS[7:]]).replace(
        "text,label\n", "text,label\n\n\n"
    )

    def check(content: str) -> None:
        data = load(write(tmp_path / "films.csv", content))
        kept, dropped = map(int, re.findall(r"(\d+) rows kept, (\d+) dropped", data.notes[0])[0])
        assert (kept, dropped) == (len(ROWS), 4)
        assert kept == sum(map(len, data.splits.values()))
        assert kept + dropped == content.count("\n") - 1

    check(content)
    must_fail(check, csv_of())


def test_long_texts_are_truncated_and_counted(tmp_path: Path) -> None:
    data = load(
        write(tmp_path / "a.csv", csv_of([("one two three four", "bad"), *ROWS])),
        vocabulary="words",
        longest=4,
    )
    assert "74 texts truncated to 4 words" in data.notes  # all but the first, which has exactly four
    assert max(int(split.inputs.lengths.max()) for split in data.splits.values()) == 4


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["1", "2", "3"], "class"),
        (["1.0", "2.0"], "class"),
        (["1", "2.5"], "number"),
        ([str(i) for i in range(20)], "class"),
        ([str(i) for i in range(21)], "number"),
        (["1", "2", "x"], "class"),
        (["yes", "no"], "class"),
        (["nan", "inf"], "class"),
        (["1e3", "-.5"], "number"),
    ],
)
def test_the_kind_of_answer_is_detected_from_the_labels(tmp_path: Path, labels: list[str], kind: str) -> None:
    rows = [(text, labels[i % len(labels)]) for i, (text, _) in enumerate(ROWS)]
    assert load(write(tmp_path / "a.csv", csv_of(rows))).answers.kind == kind


def test_numbers_keep_their_unit_and_the_scale_is_that_of_training(tmp_path: Path) -> None:
    rows = [(text, f"{1000 + i * 0.5}") for i, (text, _) in enumerate(ROWS)]
    data = load(write(tmp_path / "a.csv", csv_of(rows)))
    numbers = torch.cat([split.targets for split in data.splits.values()])  # type: ignore[misc]
    assert sorted(numbers.tolist()) == [float(label) for _, label in rows]
    trained = data.splits["train"].targets.double()  # type: ignore[union-attr]
    assert data.answers.mean == pytest.approx(float(trained.mean()))
    assert data.answers.deviation == pytest.approx(float(trained.std(correction=0)))


@pytest.mark.parametrize(
    ("mean", "deviation", "output", "expected"),
    [
        (4.5, 2.9, -0.2, "3.92"),
        (20_005, 3.2, 1.5, "20009.8"),
        (0, 1e-5, 1, "1e-05"),
        (0, 1, -3e-4, "0"),
        (5e6, 1e6, 0.1, "5100000"),
    ],
)
def test_a_number_is_rounded_relative_to_the_standard_deviation(
    mean: float, deviation: float, output: float, expected: str
) -> None:
    assert Answers(kind="number", mean=mean, deviation=deviation).format_number(output) == expected


def test_a_word_above_distinct_numbers_is_a_header(tmp_path: Path) -> None:
    rows = [(text, f"{i * 0.5}") for i, (text, _) in enumerate(ROWS)]
    data = load(write(tmp_path / "a.csv", csv_of(rows, "essay,points\n")))
    assert data.answers.kind == "number"
    assert data.notes[-2:] == (
        "text column: 'essay', label column: 'points'",
        "labels: numbers from 0.5 to 36.5 in training",
    )
    assert (
        load(write(tmp_path / "b.csv", csv_of(rows, ""))).notes[1]
        == "text column: 'column 1', label column: 'column 2'"
    )


def test_yes_and_no_are_used_only_on_request(tmp_path: Path) -> None:
    words = ("no", "TRUE", "0", "Yes", "false", "1")
    rows = [(text, words[i % 6]) for i, (text, _) in enumerate(ROWS)]
    data = load(write(tmp_path / "a.csv", csv_of(rows)), answer="yes-no")
    assert data.answers.names == ("no", "yes")
    assert everything(data) == sorted((text, ("no", "yes")[i % 2]) for i, (text, _) in enumerate(ROWS))
    assert data.splits["train"].targets.dtype == torch.float32  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "settings", "reason"),
    [
        ("", {}, "a.csv: the file is empty"),
        (" \n\n", {}, "a.csv: the file is empty"),
        ("text,label\n", {}, "a.csv: too few rows: no row is left for the train split"),
        ("text,label\na,b\nc,d\n", {}, "a.csv: too few rows: no row is left for the train split"),
        (csv_of([("a b", "x"), ("c, d", "y")]), {}, "a.csv:3: the number of fields is 3; allowed: 2, as in"),
        ("some text\nmore text\n", {}, "a.csv:1: the number of fields is 1; allowed: 2 or more"),
        (csv_of([('"a b', "x"), *ROWS]), {}, "a.csv:2: unexpected end of data"),
        (csv_of([*ROWS, ('"a" b', "x")]), {}, "a.csv:76: ',' expected after '\"'"),
        (csv_of([("a b", ""), *ROWS]), {}, "a.csv:2: the label is empty"),
        (csv_of([(text, "x") for text, _ in ROWS]), {}, "a.csv: all training labels are 'x'"),
        (csv_of(), {"text": "txet"}, "a.csv:1: column 'txet' is unknown; did you mean 'text'?"),
        (csv_of(), {"text": "column 3"}, "a.csv:1: column 'column 3' is unknown"),
        (csv_of(), {"text": "text", "label": "text"}, "a.csv:1: the text and label columns are not clear"),
        ("text,label,label\na,b,c\n", {"label": "label"}, "a.csv:1: 2 columns are named 'label'"),
        (
            "p,q,r\na,b,c\n",
            {"header": "yes"},
            "not clear; there are: 'p', 'q', 'r'; choose with --set task.data.text",
        ),
        (
            "text,review,label\na,b,c\n",
            {},
            "a.csv:1: the text and label columns are not clear; there are: 'text'",
        ),
        ("abc,def\nghi,jkl\n", {"header": "no"}, "a.csv:1: the text and label columns are not clear"),
        (
            csv_of([("a b", "6"), ("c d", "x")]),
            {"answer": "number"},
            "a.csv:3: the label is 'x'; allowed: a number",
        ),
        (csv_of([("a b", "1e31"), ("c d", "5")]), {"answer": "number"}, "is '1e31'; allowed: a number"),
        (csv_of(), {"answer": "yes-no"}, "allowed: yes or no, true or false, 1 or 0"),
        (
            csv_of(),
            {"vocabulary": "subwords", "vocabulary_size": 5},
            "a.csv: the vocabulary size is 5; allowed: at least",
        ),
        (csv_of().encode("utf-16"), {}, "a.csv:1: byte 0x00 at offset 3 is not UTF-8 text (is it UTF-16"),
        (csv_of()[:30].encode() + b"\0", {}, "a.csv:2: byte 0x00 at offset 30 is not UTF-8"),
        (
            "text,label\ncaf\u00e9 ol\u00e9,x\n".encode("latin-1"),
            {},
            "a.csv:2: byte 0xe9 at offset 14 is not UTF-8",
        ),
        (b"\xef\xbb\xbftext,label\n\xff,x\n", {}, "a.csv:2: byte 0xff at offset 14 is not UTF-8"),
    ],
)
def test_the_error_for_an_invalid_file_contains_file_line_and_reason(
    tmp_path: Path, content: str | bytes, settings: dict[str, Any], reason: str
) -> None:
    small = {"validation": 0.01, "test": 0.0} if settings.get("answer") == "number" else {}
    message = error_message(write(tmp_path / "a.csv", content), **small, **settings)
    assert message.startswith(str(tmp_path))
    assert reason in message


def test_the_error_for_an_unknown_label_contains_its_location(tmp_path: Path) -> None:
    write(tmp_path / "train.csv")
    write(tmp_path / "dev.csv", csv_of([("a film", "bad"), ("a film", "ugly")]))
    assert error_message(tmp_path).startswith(
        f"{tmp_path / 'dev.csv'}:3: the label is 'ugly'; allowed: a label that"
    )


def test_missing_and_duplicate_files_are_errors(tmp_path: Path) -> None:
    assert error_message(tmp_path / "a.csv") == f"{tmp_path / 'a.csv'}: No such file or directory"
    assert error_message(tmp_path) == f"{tmp_path}: the folder contains no train.csv, train.tsv or train.txt"
    write(tmp_path / "train.csv")
    write(tmp_path / "train.tsv")
    assert error_message(tmp_path) == f"{tmp_path}: both train.csv and train.tsv exist; keep one of them"
    with pytest.raises(WrongInput, match="pass a file with --data"):
        LabelledText().load(1)


def test_shares_that_leave_no_training_examples_are_an_error() -> None:
    with pytest.raises(WrongInput, match="validation \\+ test is 1; allowed: less than 1"):
        read(LabelledText, {"validation": 0.5, "test": 0.5})


MARKS = (b",", b"\t", b";", b'"', b"\n", b"\r", b"\0", b"\xe2\x80\xa8")


def check_loads_or_refuses(path: Path, settings: dict[str, Any]) -> bool:
    try:
        data = load(path, **settings)
    except WrongInput as error:
        refused = str(error)
    except Exception as error:
        raise AssertionError(f"{path.read_bytes()!r} with {settings}: {error!r}") from error
    else:
        refused = ""
    if refused:
        assert re.match(rf"{re.escape(str(path))}(:[1-9]\d*)?: \S", refused)
        return False
    assert all(len(split) for split in data.splits.values())
    return True


def check_mutations(folder: Path, count: int) -> None:
    draw = random.Random(11)
    whole = {".csv": csv_of(ROWS[:23]), ".tsv": csv_of(ROWS[:23], "").replace(",", "\t")}
    whole[".txt"] = "".join(f'"{text}\n""x"""\t{i}.5\n' for i, (text, _) in enumerate(ROWS[:23]))
    loaded = 0
    for i in range(count):
        suffix = draw.choice(list(whole))
        path = write(folder / f"mutated{suffix}", mutated(whole[suffix].encode(), MARKS, draw))
        settings = {
            "vocabulary": "subwords" if i % 11 == 0 else draw.choice(["words", "characters"]),
            "answer": draw.choice(["auto", "auto", "class", "number", "yes-no"]),
            "header": draw.choice(["auto", "auto", "yes", "no"]),
        }
        loaded += check_loads_or_refuses(path, settings)
    assert count / 10 < loaded < count * 9 / 10, loaded  # the damage is neither too small nor too large


def test_a_damaged_file_is_either_loaded_or_gives_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 401)
    must_fail(check_loads_or_refuses, write(tmp_path / "a.csv"), {"vocabulary": "runes"})


@pytest.mark.torture
def test_ten_thousand_damaged_files_are_either_loaded_or_give_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 10_000)


def test_a_recipe_trains_on_a_file_and_predicts(tmp_path: Path) -> None:
    settings = {
        "task.data.path": str(write(tmp_path / "films.csv")),
        "task.data.rarest": 1,
        "train.epochs": 31,
        "train.rate": 5e-3,
        "train.warmup": 5,
        "train.batch": 13,
    }
    run = train("text", settings, tmp_path / "run")
    assert run.evaluate("test")["accuracy"] == 1
    answers = run.predict(["a DULL film", "", "what fun"])
    assert [answer.text for answer in answers] == ["bad", "", "good"]


def test_prediction_truncates_texts_as_training_does(tmp_path: Path) -> None:
    settings = {"task.data.rarest": 1, "task.data.longest": 5, "train.epochs": 1}
    run = train("text", settings, tmp_path / "run", data=write(tmp_path / "films.csv"))
    short, long, other = run.predict(
        ["this film is fun 3", "this film is fun 3 dull dull", "this film is dull 3"]
    )
    assert short == long != other


def test_a_run_that_stops_early_reports_the_reason(tmp_path: Path) -> None:
    heard = Heard()
    settings = {"task.data.rarest": 1, "train.patience": 1, "train.rate": 1e-9, "train.epochs": 100}
    train("text", settings, tmp_path / "run", data=write(tmp_path / "films.csv"), watcher=heard)
    assert heard.notes[-1].startswith("ended after step ")
    assert heard.notes[-1].endswith(": 1 evaluations without improvement (train.patience = 1)")
