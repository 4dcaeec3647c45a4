"""Sentence pairs from text files."""

import gzip
import io
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import must_fail, mutated, refused

from limelight.config import read
from limelight.data.text import text_files
from limelight.data.text.parallel_corpus import PairFiles
from limelight.data.text.translation_data import Pair, SentencePairs
from limelight.errors import WrongInput

# Some sentences have several translations.
PAIRS = [
    (f"I see {i} cats.", f"Je vois {i} chats{mark}")
    for i in range(53)
    for mark in (".", " !", "…")[: i % 3 + 1]
]
DROP = "; fix it, or drop such lines: --set task.data.broken=drop"


def tabs(pairs: list[Pair] = PAIRS) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def sides(pairs: list[Pair] = PAIRS) -> tuple[str, str]:
    """The content of the two files of a folder."""
    return "".join(f"{source}\n" for source, _ in pairs), "".join(f"{target}\n" for _, target in pairs)


def zipped(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def write(path: Path, content: str | bytes = tabs()) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_folder(folder: Path, split: str = "train", pairs: list[Pair] = PAIRS, gz: str = "") -> Path:
    for language, content in zip(("en", "fr"), sides(pairs), strict=True):
        write(folder / f"{split}.{language}{gz}", gzip.compress(content.encode()) if gz else content)
    return folder


def load(path: Path, seed: int = 1, **settings: Any) -> SentencePairs:
    return PairFiles(path=str(path), **{"validation": 0.1, "test": 0.1, **settings}).load(seed)


def error_message(path: Path, **settings: Any) -> str:
    """The error message, or an empty string if there is no error."""
    return refused(load, path, **settings)


def check_error(path: Path, expected: str) -> None:
    assert error_message(path) == expected


def everything(data: SentencePairs) -> list[Pair]:
    return sorted(pair for split in data.splits.values() for pair in split)


def sizes(data: SentencePairs) -> dict[str, int]:
    """The number of distinct sources in each split."""
    return {name: len({source.lower() for source, _ in split}) for name, split in data.splits.items()}


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a.txt", str.encode),
        ("a.TSV", str.encode),
        ("a.txt.gz", lambda content: gzip.compress(content.encode())),
        (
            "a.tsv.gz",
            lambda content: gzip.compress(content[:99].encode()) + gzip.compress(content[99:].encode()),
        ),
        ("a.zip", lambda content: zipped({"fra.tsv": content})),
        (
            "a.zip",
            lambda content: zipped(
                {
                    "fra-eng/": "",
                    "__MACOSX/._fra-eng": "\0",
                    "fra-eng/_about.txt": "** Info **",
                    "__MACOSX/fra-eng/fra.txt": "\0",
                    "fra-eng/fra.txt": content,
                    "fra-eng/.hidden.txt": "\0",
                    "fra-eng/licence.md": "free",
                }
            ),
        ),
    ],
)
def test_every_pair_is_in_exactly_one_split_with_any_compression(
    tmp_path: Path, name: str, packed: Callable[[str], bytes]
) -> None:
    def check(content: str) -> None:
        data = load(write(tmp_path / name, packed(content)))
        assert everything(data) == sorted(PAIRS)
        assert sizes(data) == {"train": 43, "validation": 5, "test": 5}

    check(tabs())
    must_fail(check, tabs(PAIRS[1:]))


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + tabs(),
        tabs().replace("\n", "\r\n"),
        tabs().removesuffix("\n"),
        tabs().replace("\n", "\tCC-BY 2.0 (France) #1 & #2\n"),
        tabs().replace("\n", "\tCC-BY 2.0\n", 101),
        tabs().replace("\t", " \t\u00a0").replace("\n", " \r\n"),
    ],
)
def test_line_endings_and_encoding_marks_do_not_change_the_pairs(tmp_path: Path, content: str) -> None:
    def check(content: str) -> None:
        assert everything(load(write(tmp_path / "a.txt", content))) == sorted(PAIRS)

    check(content)
    must_fail(check, content.replace("7", "8"))


def test_notes_report_what_was_read(tmp_path: Path) -> None:
    packed = zipped({"fra-eng/fra.txt": tabs()})
    direction = "source is 'column 1', target is 'column 2'"
    assert load(write(tmp_path / "a.zip", packed)).notes == (
        "fra.txt: 105 pairs kept, 0 lines dropped",
        direction,
    )
    assert load(write(tmp_path / "many.txt", tabs(PAIRS * 10))).notes == (
        "many.txt: 1,050 pairs kept, 0 lines dropped",
        direction,
    )


@pytest.mark.parametrize("settings", [{"source": "column 2"}, {"target": "column 1"}])
def test_source_and_target_can_be_swapped(tmp_path: Path, settings: dict[str, str]) -> None:
    path = write(tmp_path / "a.txt", tabs().replace("\n", "\tCC-BY\n"))

    def check(**settings: Any) -> None:
        data = load(path, **settings)
        assert everything(data) == sorted((target, source) for source, target in PAIRS)
        assert data.notes[1] == "source is 'column 2', target is 'column 1'"

    check(**settings)
    must_fail(check)


def test_the_seed_determines_what_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt")

    def check(seed: int) -> None:
        assert load(path, seed).splits == load(path, 1).splits

    check(1)
    must_fail(check, 2)


def test_pairs_with_the_same_source_stay_in_one_split(tmp_path: Path) -> None:
    often = [
        (source.upper().replace(" ", "  ") if i % 2 else source, f"{target} {i}")
        for i in range(5)
        for source, target in PAIRS
    ]

    def check(pairs: list[Pair]) -> None:
        data = load(write(tmp_path / "a.txt", tabs(pairs)))
        sources = [
            {" ".join(source.lower().split()) for source, _ in split} for split in data.splits.values()
        ]
        assert everything(data) == sorted(pairs)
        assert [len(split) for split in sources] == [43, 5, 5]
        assert sum(map(len, sources)) == len(set.union(*sources))

    check(often)
    must_fail(check, [(f"{source} {i}", target) for i, (source, target) in enumerate(often)])


def test_without_a_test_share_there_is_no_test_split(tmp_path: Path) -> None:
    assert sizes(load(write(tmp_path / "a.txt"), test=0.0)) == {"train": 48, "validation": 5}


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("dev", ["dev", "valid", "val", "validation", "val.tok", "dev_2017"])
@pytest.mark.parametrize("test", ["test", "test_2016_flickr"])
def test_the_files_of_a_folder_define_the_splits(tmp_path: Path, dev: str, test: str, gz: str) -> None:
    write(tmp_path / "README.md", "Not data.")
    write_folder(tmp_path, "train", PAIRS[:61], gz=gz)
    write_folder(tmp_path, dev, PAIRS[61:79], gz=gz)
    assert load(tmp_path).splits == {"train": PAIRS[:61], "validation": PAIRS[61:79]}
    data = load(write_folder(tmp_path, test, PAIRS[79:], gz=gz))
    assert data.splits == {"train": PAIRS[:61], "validation": PAIRS[61:79], "test": PAIRS[79:]}
    assert data.notes == (
        f"train.en{gz} and train.fr{gz}: 61 pairs kept, 0 lines dropped",
        f"{dev}.en{gz} and {dev}.fr{gz}: 18 pairs kept, 0 lines dropped",
        f"{test}.en{gz} and {test}.fr{gz}: 26 pairs kept, 0 lines dropped",
        "source is 'en', target is 'fr'",
    )


def test_without_a_dev_file_validation_is_held_out_from_training(tmp_path: Path) -> None:
    write_folder(tmp_path)
    assert sizes(load(tmp_path)) == {"train": 43, "validation": 5, "test": 5}
    write_folder(tmp_path, "test", [("I see a dog.", "Je vois un chien.")])
    assert sizes(load(tmp_path)) == {"train": 48, "validation": 5, "test": 1}


@pytest.mark.parametrize(
    ("there", "settings", "chosen"),
    [
        (["en", "fr"], {}, ("en", "fr")),
        (["de", "en"], {}, ("en", "de")),
        (["fr", "de"], {}, ("de", "fr")),
        (["pt-BR", "zh_Hans"], {}, ("pt-BR", "zh_Hans")),
        (["de", "en"], {"source": "de"}, ("de", "en")),
        (["de", "en"], {"source": "en"}, ("en", "de")),
        (["de", "en"], {"target": "en"}, ("de", "en")),
        (["de", "en"], {"target": "de"}, ("en", "de")),
        (["de", "en", "fr"], {"source": "fr", "target": "de"}, ("fr", "de")),
        (["de", "en", "txt"], {}, ("en", "de")),
    ],
)
def test_languages_are_selected_by_extension(
    tmp_path: Path, there: list[str], settings: dict[str, Any], chosen: tuple[str, str]
) -> None:
    for language in there:
        write(tmp_path / f"train.{language}", "".join(f"{language} {i}\n" for i in range(53)))

    def check(source: str, target: str) -> None:
        data = load(tmp_path, **settings)
        assert everything(data) == sorted((f"{source} {i}", f"{target} {i}") for i in range(53))
        assert data.notes[-1] == f"source is {source!r}, target is {target!r}"

    check(*chosen)
    must_fail(check, *chosen[::-1])


def test_of_several_file_sets_the_one_named_after_the_split_is_used(tmp_path: Path) -> None:
    write_folder(tmp_path, "train", PAIRS[:61])
    write_folder(tmp_path, "train.old", PAIRS[:7])
    write_folder(tmp_path, "val", PAIRS[61:79])
    write_folder(tmp_path, "test_2016", PAIRS[79:97])
    write_folder(tmp_path, "test_2017", PAIRS[97:])
    write(tmp_path / "test_2018.en", "Nobody has translated this.")
    message = "keep one, or name it test.en and test.fr"
    check_error(tmp_path, f"{tmp_path}: test could be test_2016 or test_2017; {message}")
    write_folder(tmp_path, "test", PAIRS[79:97])
    must_fail(check_error, tmp_path, f"{tmp_path}: test could be test_2016 or test_2017; {message}")
    assert load(tmp_path).splits == {"train": PAIRS[:61], "validation": PAIRS[61:79], "test": PAIRS[79:97]}


def test_training_sources_in_other_files_are_kept_and_counted(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_folder(tmp_path, "test", [("i SEE  7 cats.", "Je vois sept chats."), ("A dog.", "Un chien.")])

    def check(pairs: list[Pair]) -> None:
        data = load(write_folder(tmp_path, "val", pairs))
        assert data.splits["validation"] == pairs
        assert data.notes[-2:] == (
            "2 of 3 pairs of validation have a source that also occurs in training",
            "1 of 2 pairs of test have a source that also occurs in training",
        )

    check([("A dog.", "Un chien."), *PAIRS[:2]])
    must_fail(check, [("A dog.", "Un chien."), ("A horse.", "Un cheval."), PAIRS[0]])


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\r", "\x0b", "\x0c", "\x1e"])
@pytest.mark.parametrize("form", ["a.txt", "folder"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, mark: str, form: str) -> None:
    marked = [(f"{source}{mark}and{mark}more", f"{target}{mark}encore") for source, target in PAIRS]

    def check(pairs: list[Pair]) -> None:
        path = tmp_path / form
        data = load(write(path, tabs(pairs)) if form == "a.txt" else write_folder(path, pairs=pairs))
        assert everything(data) == sorted(marked)
        assert "105 pairs kept, 0 lines dropped" in data.notes[0]

    check(marked)
    must_fail(check, marked[1:])


@pytest.mark.parametrize("form", ["a.txt", "folder"])
def test_quotes_and_narrow_spaces_are_text(tmp_path: Path, form: str) -> None:
    odd = [
        ('"Up" and "down"', '"Haut" et "bas"'),
        ('"', '""'),
        ('He said "no', "Il a dit\u202f: «\u00a0non"),
        ("\ufeffmark", "x\u200by"),
    ]

    def check(pairs: list[Pair]) -> None:
        path = tmp_path / form
        data = load(write(path, tabs(pairs)) if form == "a.txt" else write_folder(path, pairs=pairs))
        assert set(odd) < set(everything(data))

    check([*PAIRS, *odd])
    must_fail(check, [*PAIRS, *((source, target.replace("\u202f", " ")) for source, target in odd)])


LONG = "very " * 200 + "long"
BROKEN = [
    ("no tab here", "without a tab", "there is no tab between sentence and translation"),
    ("one\ttab\ttoo many", "with too many tabs", "the line has 2 tabs, more than most lines"),
    ("\tUn chien.", "with an empty side", "the source is empty"),
    ("A dog.\t \u00a0", "with an empty side", "the target is empty"),
    (f"{LONG}\tlong", "too long", "the source has 1,004 characters, more than 1,000"),
    (f"long\t{LONG}", "too long", "the target has 1,004 characters, more than 1,000"),
]


@pytest.mark.parametrize(("line", "reason"), [(line, reason) for line, _, reason in BROKEN])
def test_the_error_for_a_broken_line_contains_its_location(tmp_path: Path, line: str, reason: str) -> None:
    lines = tabs().splitlines()
    path = write(tmp_path / "a.txt", "\n".join([*lines[:16], line, *lines[16:]]))
    check_error(path, f"{path}:17: {reason}{DROP}")
    packed = write(
        tmp_path / "a.zip", zipped({"x/fra.txt": "\n".join([*lines[:28], line, *lines[28:], line])})
    )
    check_error(packed, f"{packed}/fra.txt:29: {reason}{DROP}")
    must_fail(check_error, write(path), f"{path}:17: {reason}{DROP}")


def test_a_fourth_column_is_an_error_in_a_file_with_three_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", tabs().replace("\n", "\tCC-BY\n") + "one\ttwo\tCC-BY\tfour\n")
    check_error(path, f"{path}:106: the line has 3 tabs, more than most lines{DROP}")
    must_fail(check_error, write(path), f"{path}:106: the line has 3 tabs, more than most lines{DROP}")


@pytest.mark.parametrize(
    ("language", "line", "reason"),
    [
        ("en", "", "the source is empty"),
        ("fr", " \t ", "the target is empty"),
        ("en", LONG, "the source has 1,004 characters, more than 1,000"),
        ("fr", LONG, "the target has 1,004 characters, more than 1,000"),
    ],
)
def test_the_error_for_a_broken_line_names_the_correct_parallel_file(
    tmp_path: Path, language: str, line: str, reason: str
) -> None:
    path = write_folder(tmp_path) / f"train.{language}"
    lines = path.read_text().split("\n")
    write(path, "\n".join([*lines[:22], line, *lines[23:]]))
    check_error(tmp_path, f"{path}:23: {reason}{DROP}")
    must_fail(check_error, write_folder(tmp_path), f"{path}:23: {reason}{DROP}")


def test_kept_and_dropped_lines_add_up_to_all_lines(tmp_path: Path) -> None:
    lines = tabs().split("\n")[:-1]
    content = "\n".join(
        ["", *lines[:30], *(line for line, _, _ in BROKEN), "\t", *lines[30:], " \t ", "no tab", ""]
    )

    def check(content: str, total: int) -> None:
        data = load(write(tmp_path / "a.txt", content), broken="drop")
        assert everything(data) == sorted(PAIRS)
        assert data.notes[0] == (
            "a.txt: 105 pairs kept, 10 lines dropped "
            "(3 blank, 2 too long, 2 with an empty side, 1 with too many tabs, 2 without a tab)"
        )
        kept, dropped = map(int, re.findall(r"(\d+) pairs kept, (\d+) lines", data.notes[0])[0])
        assert kept + dropped == total

    check(content, content.count("\n"))
    must_fail(check, f"{content}\n", content.count("\n") + 1)


def test_blank_lines_are_dropped_and_counted_even_if_broken_lines_are_errors(tmp_path: Path) -> None:
    def check(pairs: list[Pair]) -> None:
        data = load(write_folder(tmp_path, "train", pairs))
        assert everything(data) == sorted(PAIRS)
        assert data.notes[0] == "train.en and train.fr: 105 pairs kept, 2 lines dropped (2 blank)"

    check([("", " "), *PAIRS[:7], ("\t", ""), *PAIRS[7:]])
    must_fail(check, PAIRS)
    write(tmp_path / "a.txt", f"\n \n\t\n{tabs()}")
    assert load(tmp_path / "a.txt").notes[0] == "a.txt: 105 pairs kept, 3 lines dropped (3 blank)"


def test_broken_lines_of_parallel_files_are_dropped_in_pairs(tmp_path: Path) -> None:
    write_folder(
        tmp_path, "train", [("A dog.", ""), *PAIRS[:61], (LONG, "x"), ("", "Un chien."), *PAIRS[61:]]
    )
    data = load(tmp_path, broken="drop")
    assert everything(data) == sorted(PAIRS)
    counts = "105 pairs kept, 3 lines dropped (1 too long, 2 with an empty side)"
    assert data.notes[0] == f"train.en and train.fr: {counts}"


def test_the_maximum_length_is_in_characters(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", tabs([*PAIRS, ("é" * 31, "x" * 31)]))
    assert error_message(path, longest=31) == ""
    assert error_message(path, longest=30) == f"{path}:106: the source has 31 characters, more than 30{DROP}"


UTF8 = "is not UTF-8 text (is it UTF-16 or Latin-1?); save the file as UTF-8"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "", ": the file is empty"),
        ("a.txt", "\ufeff \r\n\n", ": the file is empty"),
        ("a.txt.gz", b"", ": the file is empty"),
        ("a.zip", zipped({"fra.txt": "\n"}), "/fra.txt: the file is empty"),
        ("a.txt", tabs(PAIRS[:3]), ": too few pairs: no pair is left for the train split"),
        ("a.txt", tabs(PAIRS[:1]), ": too few pairs: no pair is left for the train split"),
        (
            "a.txt",
            "".join(f"7\t{source}\t9\t{target}\n" for source, target in PAIRS),
            ": most lines have 4 columns; allowed: 2, a sentence and its translation",
        ),
        ("a.txt", tabs().encode("utf-16"), f":1: byte 0x00 at offset 3 {UTF8}"),
        ("a.txt", "a\tb\ncafé\tx\n".encode("latin-1"), f":2: byte 0xe9 at offset 7 {UTF8}"),
        (
            "a.txt.gz",
            gzip.compress(b"\xef\xbb\xbfa\tb\n\n\xff", mtime=0),
            f":3: byte 0xff at offset 8 {UTF8}",
        ),
        ("a.zip", zipped({"x/fra.txt": "a\tb\nc\0"}), f"/fra.txt:2: byte 0x00 at offset 5 {UTF8}"),
        (
            "a.txt.gz",
            tabs(),
            ": the archive is damaged: Not a gzipped file (b'I '); download or create it again",
        ),
        (
            "a.txt.gz",
            gzip.compress(tabs().encode(), mtime=0)[:-9],
            ": the archive is damaged: Compressed file ended before the end-of-stream marker was reached; "
            "download or create it again",
        ),
        ("a.zip", tabs(), ": the archive is damaged: File is not a zip file; download or create it again"),
        (
            "a.zip",
            zipped({"fra.txt": tabs()}).replace(b"PK\3\4", b"PK\3\5"),
            ": the archive is damaged: Bad magic number for file header; download or create it again",
        ),
        ("a.zip", zipped({}), ": the archive contains no .txt or .tsv file"),
        ("a.zip", zipped({"_about.txt": "x", "fra.csv": "x"}), ": the archive contains no .txt or .tsv file"),
        (
            "a.zip",
            zipped({"x/fra.txt": tabs(), "x/deu.txt": tabs()}),
            ": the archive contains both x/fra.txt and x/deu.txt; unpack it and pass one file",
        ),
        (
            "a.zip",
            zipped({"fra.txt": tabs()})
            .replace(b"PK\3\4\x14\0\0", b"PK\3\4\x14\0\1")
            .replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"),
            ": the archive is protected by a password; unpack it and pass the file",
        ),
        (
            "train.en",
            sides()[0],
            ": the file type is not supported; allowed: .txt, .tsv, their .gz, .zip; "
            "for parallel files such as train.en and train.fr, pass the folder",
        ),
        (
            "train.en.gz",
            gzip.compress(b"x\n", mtime=0),
            ": the file type is not supported; allowed: .txt, .tsv, their .gz, .zip; "
            "for parallel files such as train.en and train.fr, pass the folder",
        ),
    ],
)
def test_an_invalid_file_gives_a_one_line_error_with_location_and_reason(
    tmp_path: Path, name: str, content: str | bytes, expected: str
) -> None:
    path = write(tmp_path / name, content)
    check_error(path, f"{path}{expected}")
    must_fail(check_error, write(tmp_path / "whole.txt"), f"{path}{expected}")


def many_lines(count: int, kind: str) -> bytes:
    """A small archive that decompresses to many lines."""
    content = "a\tb\n" * (count // 4)
    return gzip.compress(content.encode()) if kind == "gz" else zipped({"fra.txt": content})


@pytest.mark.parametrize(("name", "inside"), [("a.txt.gz", ""), ("a.zip", "/fra.txt")])
def test_an_archive_that_is_too_large_when_uncompressed_is_an_error(
    tmp_path: Path, name: str, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MOST_BYTES", 4_000)
    path = tmp_path / name
    expected = f"{path}{inside}: the uncompressed size is more than 4,000 bytes; use a smaller file"
    check_error(write(path, many_lines(4_004, path.suffix[1:])), expected)
    must_fail(check_error, write(path, many_lines(4_000, path.suffix[1:])), expected)


def test_a_zip_that_declares_a_wrong_size_is_an_error(tmp_path: Path) -> None:
    honest = zipped({"fra.txt": tabs()})
    size = len(tabs().encode())
    path = tmp_path / "a.zip"
    expected = f"{path}: the archive is damaged: Bad CRC-32 for file 'fra.txt'; download or create it again"
    check_error(write(path, honest.replace(size.to_bytes(4, "little"), (7).to_bytes(4, "little"))), expected)
    must_fail(check_error, write(path, honest), expected)


def test_paths_inside_a_zip_are_never_written(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.zip", zipped({"../../evil.txt": tabs(), "/tmp/x/": ""}))
    assert load(path).notes[0] == "evil.txt: 105 pairs kept, 0 lines dropped"
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    for name in ("a.txt", "a.zip", "train.en", "b" * 3_000, "a\0b"):
        check_error(tmp_path / name, f"{tmp_path / name}: No such file or directory")
    must_fail(check_error, write(tmp_path / "a.txt"), f"{tmp_path / 'a.txt'}: No such file or directory")
    with pytest.raises(WrongInput, match="pass a file or a folder with --data"):
        PairFiles().load(1)


NEEDED = "two files such as train.en and train.fr are needed; "


@pytest.mark.parametrize(
    ("files", "settings", "expected"),
    [
        ([], {}, f": {NEEDED}there is none; for a file with tabs, pass the file"),
        (
            ["train.txt", "train.tsv", "README.md", "val.en"],
            {},
            f": {NEEDED}there is none; for a file with tabs, pass the file",
        ),
        (["train.en"], {}, f": {NEEDED}there is only en"),
        (
            ["train.de", "train.en", "train.fr"],
            {"source": "en"},
            ": source and target are not clear; there are: en, de, fr; "
            "choose with --set task.data.source=NAME --set task.data.target=NAME",
        ),
        (
            ["train.deu", "train.eng"],
            {"target": "enf"},
            ": task.data.target 'enf' is unknown; did you mean 'eng'? allowed: deu, eng",
        ),
        (["train.de", "train.en"], {"source": "de", "target": "de"}, ": source and target are both 'de'"),
        (
            ["train.en", "train.en.gz", "train.fr"],
            {},
            ": both train.en and train.en.gz exist; keep one of them",
        ),
        (["train.en", "train.fr", "val.fr"], {}, ": val.fr exists, but its translation to en does not"),
        (
            ["train.en", "train.fr", "val.en", "val.de"],
            {},
            ": val.en exists, but its translation to fr does not",
        ),
        (["train.en", "train_2.fr"], {}, ": train.en exists, but its translation to fr does not"),
        (
            ["train.en", "train.fr", "dev.en", "dev.fr", "val.en", "val.fr"],
            {},
            ": validation could be dev or",
        ),
        (
            ["train_1.en", "train_1.fr", "train_2.en", "train_2.fr"],
            {},
            ": train could be train_1 or train_2;",
        ),
    ],
)
def test_an_ambiguous_folder_is_an_error(
    tmp_path: Path, files: list[str], settings: dict[str, str], expected: str
) -> None:
    for name in files:
        write(tmp_path / name, sides()[0])

    def check(path: Path, **settings: str) -> None:
        assert error_message(path, **settings).startswith(f"{path}{expected}")

    check(tmp_path, **settings)
    must_fail(check, write_folder(tmp_path / "whole"))


def test_a_file_with_tabs_has_columns_instead_of_languages(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt")
    there = "allowed: column 1, column 2"
    assert error_message(path, source="en") == f"{path}: task.data.source 'en' is unknown; {there}"
    assert error_message(path, source="column 1") == ""


def test_the_error_for_unequal_numbers_of_lines_contains_both(tmp_path: Path) -> None:
    often = PAIRS * 11
    path = write_folder(tmp_path, "train", often) / "train.fr"
    expected = f"{tmp_path}: train.fr has 1,154 lines, train.en has 1,155; the numbers must be equal"
    check_error(write(path, sides(often[1:])[1]).parent, expected)
    must_fail(check_error, write(path, sides(often)[1]).parent, expected)


def test_errors_name_the_file_of_a_folder(tmp_path: Path) -> None:
    write_folder(tmp_path)
    val = write_folder(tmp_path, "val") / "val.fr"
    check_error(write(val, "\n").parent, f"{val}: the file is empty")
    check_error(write(val, b"x\n\xc3\n").parent, f"{val}:2: byte 0xc3 at offset 2 {UTF8}")
    val.unlink()
    val.mkdir()
    check_error(tmp_path, f"{val}: Is a directory")
    val.rmdir()
    must_fail(check_error, write_folder(tmp_path, "val"), f"{val}: the file is empty")


def test_a_folder_without_valid_lines_is_an_error(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_folder(tmp_path, "val", [("A dog.", LONG)])
    assert (
        error_message(tmp_path, broken="drop")
        == f"{tmp_path}: too few pairs: no pair is left for the validation split"
    )


def test_shares_that_leave_no_training_examples_are_an_error() -> None:
    with pytest.raises(WrongInput, match="validation \\+ test is 1; allowed: less than 1"):
        read(PairFiles, {"validation": 0.5, "test": 0.5})


MARKS = (b"\t", b'"', b"\n", b"\r", b"\0", b"\xe2\x80\xa8", b"PK", b" ")


def check_loads_or_refuses(path: Path, settings: dict[str, Any]) -> bool:
    try:
        data = load(path, **settings)
    except WrongInput as error:
        refused = str(error)
    except Exception as error:
        raise AssertionError(f"{path} with {settings}: {error!r}") from error
    else:
        refused = ""
    if refused:
        assert re.fullmatch(rf"{re.escape(str(path))}(/[^/:]+)?(:[1-9]\d*)?: \S.*", refused), refused
        return False
    assert all(data.splits.values())
    assert sum(map(len, data.splits.values())) == sum(
        int(kept) for kept in re.findall(r"(\d+) pairs kept", " ".join(data.notes))
    )
    return True


def check_mutations(folder: Path, count: int) -> None:
    draw = random.Random(11)
    pairs = PAIRS[:23]
    whole = {
        "a.txt": tabs(pairs).encode(),
        "b.tsv": tabs(pairs).replace("\n", "\tCC-BY\n").encode(),
        "c.txt.gz": gzip.compress(tabs(pairs).encode()),
        "d.zip": zipped({"x/_about.txt": "about", "x/fra.txt": tabs(pairs)}),
        "e/train.fr": sides(pairs)[1].encode(),
        "e/val.en.gz": gzip.compress(sides(pairs)[0].encode()),
    }
    write_folder(folder / "e", "train", pairs)
    write(folder / "e" / "val.fr", sides(pairs)[1])
    for name, content in whole.items():
        write(folder / name, content)
    loaded = 0
    for _ in range(count):
        name = draw.choice(list(whole))
        path = write(folder / name, mutated(whole[name], MARKS, draw))
        settings = {"broken": draw.choice(["refuse", "drop"]), "longest": draw.choice([29, 1_000])}
        loaded += check_loads_or_refuses(path.parent if name.startswith("e/") else path, settings)
        write(path, whole[name])
    assert count / 10 < loaded < count * 9 / 10, loaded  # the damage is neither too small nor too large


def test_a_damaged_file_is_either_loaded_or_gives_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 307)
    must_fail(check_loads_or_refuses, write(tmp_path / "a.txt"), {"broken": "mended"})


@pytest.mark.torture
def test_ten_thousand_damaged_files_are_either_loaded_or_give_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 10_000)
