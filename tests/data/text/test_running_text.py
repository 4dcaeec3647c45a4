"""Running text as windows of tokens: small texts in memory, large ones in a file that is written once."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import must_fail

from limelight.data.text import running_text, text_sources, token_file
from limelight.data.text.running_text import RunningText, TextData, TextWindows
from limelight.data.text.text_vocabulary import END, TextBytes
from limelight.data.text.token_file import TokenEntry, Tokens
from limelight.errors import WrongInput

CONTEXT = 7
LINES = "".join(f"line {i} of {i * i % 97} – some text\n" for i in range(211))


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMELIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is a large one, and has many blocks."""
    monkeypatch.setattr(running_text, "IN_MEMORY", 0)
    for module in (text_sources, token_file, running_text):
        monkeypatch.setattr(module, "BLOCK", 101)
    monkeypatch.setattr(token_file, "SAVE_EVERY", 3)


def load(path: Path, **settings: Any) -> TextData:
    return RunningText(path=str(path), **{"context": CONTEXT, **settings}).load(1)


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def text_of(data: TextData, split: str) -> str:
    """The text of all windows without those tokens that the next window repeats."""
    windows = data.examples(split)
    batch = windows.batch(torch.arange(len(windows)))
    first = batch.inputs[0, :1]
    return data.reader.decode(torch.cat((first, batch.targets[batch.targets >= 0])))


def check_each_token_is_a_target_once(windows: TextWindows) -> None:
    batch = windows.batch(torch.arange(len(windows)))
    expected = windows.tokens.at(np.arange(windows.first + 1, windows.first + windows.count))
    assert batch.targets[batch.targets >= 0].tolist() == expected.tolist()
    # The target of a token is the token after it.
    assert torch.equal(
        batch.inputs[:, 1:], batch.targets[:, :-1].where(batch.targets[:, :-1] >= 0, batch.inputs[:, 1:])
    )


@pytest.mark.parametrize("count", [8, 9, 14, 15, 16, 43])
def test_each_token_but_the_first_is_a_target_once(count: int) -> None:
    tokens = Tokens(TokenEntry(reader=TextBytes()), values=np.arange(5, 5 + 59, dtype=np.uint16))
    windows = TextWindows(tokens, 3, count, CONTEXT)
    check_each_token_is_a_target_once(windows)

    class Overlapping(TextWindows):
        def batch(self, index: torch.Tensor) -> Any:
            found = super().batch(index)
            return type(found)(found.inputs, found.targets.where(found.targets >= 0, 5), found.index)

    if (count - 1) % CONTEXT:
        must_fail(check_each_token_is_a_target_once, Overlapping(tokens, 3, count, CONTEXT))


def test_the_last_tenth_of_a_file_is_held_out_and_nothing_is_lost(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.txt", LINES))
    cut = int(len(LINES) * 0.9)
    assert text_of(data, "train") == LINES[:cut]
    assert text_of(data, "validation") == LINES[cut:]
    assert list(data.splits) == ["train", "validation"]
    assert data.characters_per_token("train") == 1


def test_the_last_tenth_of_each_file_is_held_out(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / "texts" / f"{name}.txt", name * 100)
    data = load(tmp_path / "texts")
    # A token, which has no text, ends a document; the last one of a split has no end.
    assert text_of(data, "train") == "a" * 90 + "b" * 90
    assert data.tokens.values.tolist().count(END) == 2
    assert [data.tokens.entry.splits[split].ends for split in ("train", "validation")] == [1, 1]


def test_a_separator_ends_a_document(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one<|endoftext|>two" * 31)
    data = load(path)
    assert text_of(data, "train").startswith("onetwoonetwo")
    assert data.tokens.values.tolist().count(END) > 20
    assert "<|endoftext|>" in text_of(load(path, separator=""), "train")


def test_epochs_visit_all_windows_and_differ(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.txt", LINES))
    size = len(data.examples("train"))
    epochs = [torch.cat(list(data.epoch(5, 1, number))) for number in range(9)]
    for epoch in epochs:
        assert sorted((epoch % size).tolist()) == list(range(size))
        batch = data.batch("train", epoch)
        assert int((batch.targets >= 0).sum()) > (size - 2) * CONTEXT
    windows = [frozenset(map(tuple, data.batch("train", epoch).inputs.tolist())) for epoch in epochs]
    assert len(set(windows)) > 3  # they begin at other tokens
    again = torch.cat(list(data.epoch(5, 1, 3)))
    assert torch.equal(again, epochs[3])
    assert not torch.equal(torch.cat(list(data.epoch(5, 2, 3))), epochs[3])


@pytest.mark.parametrize("vocabulary", ["characters", "bytes", "subwords"])
@pytest.mark.usefixtures("_large")
def test_a_large_text_has_the_tokens_of_a_small_one(
    vocabulary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt"):
        write(tmp_path / "texts" / name, LINES)
    settings = {"vocabulary": vocabulary, "vocabulary_size": 400}
    large = load(tmp_path / "texts", **settings)
    assert large.tokens.path is not None
    monkeypatch.setattr(running_text, "IN_MEMORY", 10**9)
    small = load(tmp_path / "texts", **settings)
    assert small.tokens.path is None
    everything = np.arange(large.tokens.entry.total)
    assert np.array_equal(large.tokens.at(everything), small.tokens.at(everything))
    assert large.digest == small.digest
    assert text_of(large, "validation") == text_of(small, "validation")


@pytest.mark.usefixtures("_large")
def test_a_text_is_encoded_once_and_again_if_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.txt", LINES)
    first = load(path)
    with monkeypatch.context() as patch:
        patch.setattr(running_text, "write_tokens", None)  # not called again
        assert load(path).digest == first.digest
        assert load(path, context=11).tokens.path == first.tokens.path
    write(path, LINES.replace("some", "more"))
    assert load(path).digest != first.digest


@pytest.mark.usefixtures("_large")
def test_a_damaged_file_of_tokens_is_written_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", LINES)
    first = load(path)
    assert first.tokens.path is not None
    for damage in (b"", b"\xff" * 13):
        content = first.tokens.path.read_bytes()
        first.tokens.path.write_bytes(damage + content[len(damage) :] if damage else content[:-1])
        again = load(path)
        assert again.digest == first.digest
        assert again.tokens.path is not None
        assert again.tokens.path.read_bytes() == content


KILLED = """
import os, signal, sys
from limelight.data.text import running_text, text_sources, token_file
from limelight.data.text.running_text import RunningText
running_text.IN_MEMORY = 0
text_sources.BLOCK = token_file.BLOCK = running_text.BLOCK = 101
token_file.SAVE_EVERY = 3
count, add = [0], token_file._add
def adding(*arguments):
    count[0] += 1
    if count[0] == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return add(*arguments)
token_file._add = adding
if len(sys.argv) > 3:  # the negative control: it continues at a wrong block
    read = token_file._read_entry
    def wrong(path):
        found = read(path)
        return found and found.model_copy(update={"blocks": found.blocks + 1})
    token_file._read_entry = wrong
data = RunningText(path=sys.argv[1], context=7).load(1)
print(data.digest, count[0])
"""


def check_killed_encoding(path: Path, blocks: int, digest: str, *broken: str) -> None:
    """Killed in the block with this number, and continued: the same tokens, without encoding all again."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    outcomes = [
        subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(number), *broken],
            capture_output=True, text=True, env=environment, check=False,
        )
        for number in (29, 10**9)
    ]  # fmt: skip
    assert outcomes[0].returncode == -9
    found, encoded = outcomes[1].stdout.split()
    assert int(encoded) == blocks - 27  # three blocks at a time are saved
    assert found == digest


@pytest.mark.usefixtures("_large")
def test_encoding_that_is_killed_continues_where_it_was(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", LINES)
    data = load(path)
    assert data.tokens.path is not None
    for file in (tmp_path / "cache" / "tokens").iterdir():
        file.unlink()
    check_killed_encoding(path, data.tokens.entry.blocks, data.digest)
    for file in (tmp_path / "cache" / "tokens").iterdir():
        file.unlink()
    must_fail(check_killed_encoding, path, data.tokens.entry.blocks, data.digest, "broken")


def test_the_manual_of_python_is_the_default() -> None:
    data = RunningText(context=CONTEXT).load(1)
    assert 'The "assert" statement' in text_of(data, "train")[:100]
    assert data.tokens.entry.splits["train"].ends > 50
    assert data.notes[0].startswith("vocabulary: ")


def test_other_text_is_encoded_with_the_vocabulary_of_training(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.txt", LINES))
    other = RunningText(context=CONTEXT).load_other(write(tmp_path / "b.txt", "some other Text"), data.reader)
    assert list(other.splits) == ["new"]
    assert text_of(other, "new") == "some ot\ufffde\ufffd \ufffdext"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a.txt: the text is empty"),
        ("0123456", r"a.txt: the train split has 6 characters; needed: more than task.data.context = 7"),
        ("0123456789" * 7, r"a.txt: the validation split has 7 characters; needed: more than"),
    ],
)
def test_a_text_that_is_too_short_is_refused(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=message):
        load(write(tmp_path / "a.txt", content))


@pytest.mark.parametrize("large", [False, True])
def test_an_empty_text_is_refused_with_any_vocabulary(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(running_text, "IN_MEMORY", -1)
    empty, config = write(tmp_path / "a.txt", ""), RunningText(path=str(tmp_path / "a.txt"))
    with pytest.raises(WrongInput, match=r"a.txt: the text is empty"):
        load(empty, vocabulary="bytes")
    with pytest.raises(WrongInput, match=r"a.txt: the text is empty"):
        config.load(1, TextBytes())
    with pytest.raises(WrongInput, match=r"a.txt: the text is empty"):
        config.load_other(empty, TextBytes())
    write(tmp_path / "folder" / "train.txt", LINES)
    write(tmp_path / "folder" / "valid.txt", "")
    with pytest.raises(WrongInput, match=r"valid.txt: the text is empty"):
        load(tmp_path / "folder")


@pytest.mark.parametrize("vocabulary", ["words", "subwords"])
def test_separators_are_not_a_part_of_the_vocabulary(vocabulary: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "<|endoftext|>".join(LINES.splitlines()))

    def check(separator: str) -> None:
        reader = load(path, vocabulary=vocabulary, vocabulary_size=400, separator=separator).reader
        assert not any("endoftext" in reader.name(i) for i in range(reader.size))

    check("<|endoftext|>")
    must_fail(check, "another")


def test_the_share_of_unknown_tokens_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", LINES)
    assert not any("unknown" in note for note in load(path).notes)
    notes = load(path, vocabulary_size=6).notes  # four characters, of which the space is one
    share = next(note for note in notes if note.startswith("train")).split(", ")[-1]
    known = sum(LINES[: int(0.9 * len(LINES))].count(one) for one in sorted(set(LINES), key=LINES.count)[-4:])
    assert share.endswith(" of them unknown")
    assert abs(float(share.split("%")[0]) - 100 * (1 - known / (0.9 * len(LINES)))) < 0.1


@pytest.mark.usefixtures("_large")
def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write(tmp_path / "cache", "a file")
    with pytest.raises(WrongInput, match=r"tokens: .*; choose another folder with LIMELIGHT_CACHE"):
        load(write(tmp_path / "a.txt", LINES))


def test_a_limit_uses_the_first_windows(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.txt", LINES), limit=3)
    assert [len(data.lengths(split)) for split in data.splits] == [3, 3]
    assert text_of(data, "train") == LINES[: 3 * CONTEXT + 1]
