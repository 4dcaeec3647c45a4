"""Sentences with one label per token, from files in columns."""

import gzip
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support import mutated

from limelight.config import read
from limelight.data.dataset import SequenceData
from limelight.data.ragged import Ragged
from limelight.data.text.affixes import Affixes, shape
from limelight.data.text.conll import ColumnFile, has_columns
from limelight.data.text.tagged_text import NO_LABEL, TaggedFiles
from limelight.errors import WrongInput

SENTENCES = [
    [("The", "DET"), (noun, "NOUN"), (verb, "VERB"), ("a", "DET"), (f"{other}{i}", "NOUN"), (".", "PUNCT")]
    for i in range(7)
    for noun in ("cat", "dog", "bird")
    for verb, other in (("sees", "fish"), ("hears", "mouse"))
]
Sentences = list[list[tuple[str, str]]]


def columns(sentences: Sentences = SENTENCES, separator: str = "\t") -> str:
    return "\n".join("".join(f"{separator.join(pair)}\n" for pair in one) for one in sentences)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(path: Path, seed: int = 1, **settings: Any) -> SequenceData:
    return TaggedFiles(path=str(path), **settings).load(seed)


def tagged(data: SequenceData, split: str) -> Sentences:
    """The tokens of a split with their labels."""
    targets = data.splits[split].targets
    assert isinstance(targets, Ragged)
    return [
        [
            (token, data.answers.names[i - 1])
            for token, i in zip(text.split(), [i for i in targets[n].tolist() if i != NO_LABEL], strict=True)
        ]
        for n, text in enumerate(data.texts[split])
    ]


def everything(data: SequenceData) -> Sentences:
    return sorted(one for split in data.splits for one in tagged(data, split))


def error_of(content: str | bytes, folder: Path, name: str = "a.conll", **settings: Any) -> str:
    with pytest.raises(WrongInput) as caught:
        load(write(folder / name, content), **settings)
    return str(caught.value)


@pytest.mark.parametrize("separator", ["\t", " ", "   ", " _ x "])
def test_every_sentence_is_in_exactly_one_split_with_its_labels(tmp_path: Path, separator: str) -> None:
    data = load(write(tmp_path / "a.conll", columns(separator=separator)))
    assert everything(data) == sorted(SENTENCES)
    assert {name: len(split) for name, split in data.splits.items()} == {
        "train": 34,
        "validation": 4,
        "test": 4,
    }
    assert data.answers.names == ("DET", "NOUN", "PUNCT", "VERB")
    assert data.notes == ("a.conll: 42 sentences, 252 tokens", "4 labels: DET, NOUN, PUNCT, VERB")


def test_equal_sentences_stay_in_the_same_split_and_the_seed_chooses(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", columns(SENTENCES * 2))
    data = load(path)
    texts = [set(split) for split in data.texts.values()]
    assert sum(map(len, texts)) == len(set().union(*texts)) == 42
    assert load(path).digest == data.digest != load(path, seed=2).digest


def test_a_rare_label_is_in_training(tmp_path: Path) -> None:
    rare = [*SENTENCES, [("Oh", "INTJ"), ("!", "PUNCT")]]
    for seed in range(7):
        data = load(write(tmp_path / "a.conll", columns(rare)), seed, test=0.4, validation=0.4)
        assert "INTJ" in {label for one in tagged(data, "train") for _, label in one}


CONLL_U = """\
# sent_id = 1
# text = Du  # a comment with = signs
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\tX\t_\t3\tcase\t_\t_
2\tle\tle\tDET\tX\t_\t3\tdet\t_\t_
2.1\tvide\tvide\tNOUN\tX\t_\t3\tdet\t_\t_
3\t10 000\t_\tNUM\tX\t_\t0\troot\t_\t_

"""
CONLL_2003 = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
# # B-NP O
rejects VBZ B-VP O

Peter NNP B-NP B-PER
"""


def read_pairs(path: Path, token: int = 0, label: int = 0) -> Sentences:
    return [
        list(zip(one.tokens, one.labels, strict=True)) for one in ColumnFile.read(path).labelled(token, label)
    ]


def test_files_of_universal_dependencies_have_words_and_parts_of_speech(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", CONLL_U)
    assert read_pairs(path) == [[("de", "ADP"), ("le", "DET"), ("10_000", "NUM")]]
    assert read_pairs(path, token=1, label=8) == [[("1", "case"), ("2", "det"), ("3", "root")]]


def test_document_marks_are_left_out_and_a_hash_can_be_a_token(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", CONLL_2003)
    assert read_pairs(path) == [[("EU", "B-ORG"), ("#", "O"), ("rejects", "O")], [("Peter", "B-PER")]]
    assert read_pairs(path, label=2)[1] == [("Peter", "NNP")]


def test_a_compressed_file_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = load(write(tmp_path / "a.conll", columns()))
    packed = load(write(tmp_path / "b.conll.gz", gzip.compress(columns().encode())))
    windows = load(write(tmp_path / "c.conll", "\ufeff" + columns().replace("\n", "\r\n")))
    assert plain.digest == packed.digest == windows.digest


@pytest.mark.parametrize(
    "names",
    [
        ("train.conll", "dev.conll", "test.conll"),
        ("en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu.gz"),
        ("eng.train", "eng.valid", "eng.test"),
        ("train.txt", "val.txt", "test.txt"),
    ],
)
def test_the_files_of_a_folder_are_its_splits(tmp_path: Path, names: tuple[str, ...]) -> None:
    for i, name in enumerate(names):
        content = columns(SENTENCES[i::3]).encode()
        write(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
    write(tmp_path / "README.md", "train")
    data = load(tmp_path)
    for i, split in enumerate(("train", "validation", "test")):
        assert tagged(data, split) == SENTENCES[i::3]


def test_a_label_that_only_occurs_in_a_test_file_is_mentioned(tmp_path: Path) -> None:
    write(tmp_path / "train.conll", columns(SENTENCES[:20]))
    write(tmp_path / "dev.conll", columns([*SENTENCES[20:], [("Oh", "INTJ")]]))
    data = load(tmp_path)
    assert data.notes[-1] == "warning: labels that do not occur in training: INTJ"
    assert tagged(data, "validation")[-1] == [("Oh", "INTJ")]


def test_long_sentences_are_divided_and_no_token_is_lost(tmp_path: Path) -> None:
    whole = [[pair for one in SENTENCES for pair in one], *SENTENCES]
    data = load(write(tmp_path / "a.conll", columns(whole)), longest=50)
    assert "1 sentences of more than 50 tokens were divided" in data.notes
    assert sum(map(len, everything(data))) == 2 * 252
    assert max(int(split.inputs.lengths.max()) for split in data.splits.values()) == 50


@pytest.mark.parametrize("vocabulary", ["affixes", "words", "subwords"])
def test_each_token_has_one_label_whatever_it_is_divided_into(tmp_path: Path, vocabulary: str) -> None:
    sentences = [[("don't-go", "VERB"), ("e.g.", "ADV"), (f"x{i}", "NOUN")] for i in range(23)]
    path = write(tmp_path / "a.conll", columns(sentences))
    data = load(path, vocabulary=vocabulary, vocabulary_size=40)
    assert everything(data) == sorted(sentences)
    longer = int(data.splits["train"].inputs.lengths.max())
    assert longer == 3 if vocabulary == "affixes" else longer > 3


ERRORS = {
    "The\tDET\ncat\n": r"a\.conll:2: the number of columns is 1; allowed: 2, as in line 1; each line has one",
    "The\nlines\nof a text\n": r"a\.conll:3: the number of columns is 3; allowed: 2 or more in each line",
    "The\ncat\n": r"a\.conll:1: the number of columns is 1; allowed: 2 or more: a token, and its label in",
    "The\tDET\ncat\t\n": r"a\.conll:2: the label is empty",
    "The\tDET\n\tNOUN\n": r"a\.conll:2: the token is empty",
    "# only\n\n# comments\n": r"a\.conll: the file contains no token",
    "": r"a\.conll: the file is empty",
    columns(
        [[("a", "DET"), (str(i), "DET")] for i in range(7)]
    ): r"a\.conll: all training labels are 'DET'; at least two different",
    "The\tDET\ncat\tNOUN\n": r"a\.conll: too few sentences: none is left for the train split",
}


@pytest.mark.parametrize("content", ERRORS)
def test_an_invalid_file_is_refused_with_its_line(tmp_path: Path, content: str) -> None:
    assert re.search(ERRORS[content], error_of(content, tmp_path))


def test_wrong_settings_and_bytes_are_refused(tmp_path: Path) -> None:
    assert "a.conll:1: task.data.label is 3; allowed: 1 to 2" in error_of(columns(), tmp_path, label=3)
    assert "a.conll:2: byte 0xff at offset 6 is not UTF-8" in error_of(b"The D\n\xff O\n", tmp_path)


def test_a_folder_without_a_train_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "other.txt", columns())
    with pytest.raises(WrongInput, match=r"the folder contains no train\.conll, train\.tsv or train\.txt"):
        load(tmp_path)
    write(tmp_path / "train.txt", columns())
    write(tmp_path / "train.conll", columns())
    with pytest.raises(WrongInput, match=r"both train\.conll and train\.txt exist; keep one of them"):
        load(tmp_path)


def test_damaged_files_give_an_error_or_every_label(tmp_path: Path) -> None:
    draw, refused = random.Random(5), 0
    for number in range(200):
        content = mutated(columns(SENTENCES[:11]).encode(), [b"\t", b"\n", b"\n\n", b"#", b"\r"], draw)
        path = write(tmp_path / f"{number}.conll", content)
        try:
            assert all(len(one) for one in everything(load(path)))
        except WrongInput as error:
            reason, refused = str(error), refused + 1
            if "\n" in reason or not reason.startswith(str(path)):
                raise
    assert 20 < refused < 200


@pytest.mark.parametrize(
    ("name", "content", "in_columns"),
    [
        ("a.conll", "The cat\n", True),
        ("a.tsv.gz", "The\n", True),
        ("a.txt", "The cat sees .\nA dog .\n", False),
        ("a.txt", "The cat sees .\n\nA dog .\n", False),
        ("a.txt", "The\ncat\n\nA\ndog\n", True),
        ("a.txt", "The\tDET\n\nA\tDET\n", True),
        ("a.txt", "The cat\n\nA dog\n", False),
    ],
)
def test_files_in_columns_are_told_from_lines(
    tmp_path: Path, name: str, content: str, in_columns: bool
) -> None:
    data = gzip.compress(content.encode()) if name.endswith(".gz") else content
    assert has_columns(write(tmp_path / name, data)) is in_columns


# Affixes


def test_a_new_token_shares_affixes_and_shape_with_known_ones() -> None:
    reader = Affixes.build(["Dancers walked", "singers talked"], 100)
    new = reader.encode("Bankers balked")
    assert new[:, 0].tolist() == [0, 0]
    known = reader.encode("dancers Talked")
    assert new[0, 2:4].tolist() == known[0, 2:4].tolist() != [0, 0]
    assert known[0, 4] != new[0, 4] == known[1, 4]
    assert reader.tokens("Dancers Bankers") == ["Dancers", "Bankers (unk)"]
    assert read(Affixes, reader.model_dump()) == reader


def test_affixes_have_other_ids_than_tokens() -> None:
    reader = Affixes.build(["the cats see the bats", "a 1st B2"], 3)
    rows = reader.encode("the cats see a 1st")
    assert ((rows[:, 1:] == 0) | (rows[:, 1:] >= reader.size)).all()
    assert (rows < reader.total).all()
    assert (rows[:, 0] < reader.size).all()


@pytest.mark.parametrize(
    ("token", "expected"), [("USA", "X"), ("Cats", "Xx"), ("iPhone7", "xXx0"), ("3.14", "0.0"), ("--", "-")]
)
def test_the_shape_of_a_token(token: str, expected: str) -> None:
    assert shape(token) == expected


def test_a_line_without_tokens_is_refused() -> None:
    with pytest.raises(WrongInput, match="the line is empty"):
        Affixes.build(["a b"], 5).encode(" ")
    assert torch.equal(Affixes.build(["a b"], 5).encode("a")[:, 0], torch.tensor([1]))
