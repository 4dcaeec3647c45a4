"""Documents of running text as examples, and words of running text."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support import must_fail, refused

from limelight.data.text import running_text, text_documents
from limelight.data.text.running_text import RunningText
from limelight.data.text.text_documents import TextDocuments, find_documents
from limelight.data.text.text_vocabulary import END, TextCharacters, TextWords
from limelight.data.text.token_file import Counts, TokenEntry, Tokens

READER = TextCharacters(known="abcdefg")


def tokens_of(*ids: int) -> Tokens:
    entry = TokenEntry(reader=READER, splits={"train": Counts(tokens=len(ids))})
    return Tokens(entry, values=np.array(ids, np.uint8))


def without_the_last_token(tokens: Tokens, first: int, count: int, context: int) -> TextDocuments:
    return find_documents(tokens, first, count - 1, context)


def documents_by_hand(ids: list[int], context: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for one in ids:
        if one == END:
            found.append([])
        else:
            found[-1].append(one)
    return [row[at : at + context] for row in found for at in range(0, len(row), context)]


def check_documents(
    ids: list[int], first: int, count: int, context: int, find: Callable[..., TextDocuments] = find_documents
) -> None:
    documents = find(tokens_of(*ids), first, count, context)
    batch = documents.batch(torch.arange(len(documents)))
    lengths = documents.lengths.tolist()
    rows = [row[:n] for row, n in zip(batch.inputs.tolist(), lengths, strict=True)]
    assert rows == documents_by_hand(ids[first : first + count], context)
    for row, n in zip(batch.inputs, lengths, strict=True):
        assert not row[n:].any()


@pytest.mark.parametrize("read", [3, 2**22])
def test_documents_are_found_wherever_blocks_of_tokens_end(
    read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_documents, "READ", read)
    ids = [2, 3, 1, 4, 5, 6, 7, 8, 2, 1, 1, 3, 1, 5, 6, 1]
    for first, count in ((0, 16), (3, 11), (2, 7), (11, 5), (0, 15)):
        for context in (2, 5, 7):
            check_documents(ids, first, count, context)
    must_fail(check_documents, ids, 3, 11, 5, without_the_last_token)


def test_a_limit_keeps_the_first_documents() -> None:
    documents = find_documents(tokens_of(2, 3, 1, 4, 1, 5, 6, 7), 0, 8, 5, limit=2)
    assert documents.lengths.tolist() == [2, 1]


def data(path: Path, text: str, **settings: object) -> RunningText:
    path.write_text(text, "utf-8")
    lines = {"separator": "\n", "examples": "documents", "vocabulary": "words", "context": 5}
    return RunningText.model_validate({"path": str(path), "validation": 0.3, **lines, **settings})


TEXT = "A red sun.\nthe sea\n\nOne two three four five six seven\nend of it\nmore of it\nand the last one\n"


def test_each_line_is_an_example_if_lines_are_documents(tmp_path: Path) -> None:
    loaded = data(tmp_path / "lines.txt", TEXT).load(1)
    texts = [loaded.text("train", i).strip() for i in range(len(loaded.examples("train")))]
    assert texts[:4] == ["a red sun.", "the sea", "one two three four five", "six seven"]
    assert any("documents" in note for note in loaded.notes)


def test_an_epoch_visits_each_document_once_with_similar_ones(tmp_path: Path) -> None:
    text = "".join(f"{' '.join('x' * (i % 5 + 1))}\n" for i in range(97))
    loaded = data(tmp_path / "lines.txt", text).load(1)
    batches = loaded.epoch(11, 3, 0)
    assert torch.cat(list(batches)).sort().values.tolist() == list(range(len(loaded.examples("train"))))
    lengths = loaded.lengths("train")
    assert all(int(lengths[index].max() - lengths[index].min()) <= 1 for index in batches)


def test_a_corpus_in_a_file_has_the_same_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = data(tmp_path / "lines.txt", TEXT)
    in_memory = config.load(1)
    monkeypatch.setattr(running_text, "IN_MEMORY", 0)
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path / "cache"))
    in_file = config.load(1)
    assert in_file.tokens.path is not None
    index = torch.arange(len(in_memory.examples("train")))
    assert torch.equal(in_file.batch("train", index).inputs, in_memory.batch("train", index).inputs)


@pytest.mark.parametrize(
    ("text", "message"), [("\n\n\n\n", "no item occurs"), ("one\n\n\n\n", "words; needed: at least 1")]
)
def test_a_file_without_documents_is_refused(text: str, message: str, tmp_path: Path) -> None:
    assert message in refused(data(tmp_path / "lines.txt", text).load, 1)


# Words


def test_words_are_in_lower_case_and_unknown_ones_have_id_0() -> None:
    reader = TextWords.build(["The sun, the sea.", "the sun"], 4)
    assert reader.known == ("the", "sun")
    assert reader.encode("The moon, the SUN").tolist() == [2, 0, 0, 2, 3]
    assert reader.tokens("The moon") == ["the", "moon (unk)"]
    assert reader.size == len(reader.contents) == 4


def test_words_of_running_text_have_the_ids_of_the_words_for_labelled_texts() -> None:
    reader = TextWords.build(["A man (and his dog), isn't it?"], 99)
    text = "his dog isn't a man ?"
    assert torch.equal(reader.words.encode(text), reader.encode(text))
    assert reader.words.size == reader.size
    assert END not in reader.words.encode("[end] (end").tolist()


def test_the_text_of_words_has_conventional_spaces() -> None:
    reader = TextWords.build(["A man (and his dog), isn't it?"], 99)
    assert reader.decode(reader.encode("a man (and his dog), isn't it?")) == "a man (and his dog), isn't it?"
