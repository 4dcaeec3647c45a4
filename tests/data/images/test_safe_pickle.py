"""Pickles are read without executing them."""

import ast
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import must_fail, mutated

import limelight
from limelight.data.images import safe_pickle
from limelight.data.images.safe_pickle import read_pickle
from limelight.errors import WrongInput

SECONDS = 2.0  # time limit per pickle
NUMBERS = [0, 1, -1, 255, 256, 65_535, 65_536, -(2**31), 2**31, 2**63, 2**100, -(2**100), 2**3_000]
TEXTS = ["", "a", "é", "€", "𝄞", "a\nb\\c\r\0'\"", "x" * 300, "x" * 70_000]
PROTOCOLS = range(6)
VALUES = [
    *(None, True, False, 0.0, -1.5, 1e300, float("inf"), [], (), {}),
    *NUMBERS,
    *TEXTS,
    *(text.encode() for text in TEXTS),
    bytes(range(256)),
    [1, [2, (3,), (4, 5), (6, 7, 8), (9, 10, 11, 12)], []],
    {"a": 1, b"b": [2, {"c": (3, None)}], "": {}},
    list(range(3_001)),
    {f"key {i}": i for i in range(2_003)},
    [["shared"]] * 3,
]


def error_message(content: bytes) -> str:
    """The error message, or an empty string if there is no error."""
    begin = time.perf_counter()
    try:
        read_pickle(content, "here")
    except WrongInput as error:
        return str(error)
    finally:
        assert time.perf_counter() - begin < SECONDS
    return ""


def check_error(content: bytes, expected: str) -> None:
    assert error_message(content) == f"here: {expected}"


def check_same(found: Any, expected: Any) -> None:
    """Check that types and values are equal at all levels."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert (found == expected).all()
    elif isinstance(expected, dict):
        check_same(list(found.items()), list(expected.items()))
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_same(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_data_is_restored(protocol: int) -> None:
    for value in VALUES:
        check_same(read_pickle(pickle.dumps(value, protocol), "here"), value)
        must_fail(check_same, read_pickle(pickle.dumps([value], protocol), "here"), value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_are_restored(protocol: int) -> None:
    for dtype in ["u1", "i1", "<i4", ">i4", "<i8", "<u2", "<f4", "<f8", "<f2"]:
        for shape in [(), (0,), (0, 3), (7,), (5, 3), (2, 3, 5)]:
            array = (np.arange(np.prod(shape, dtype=int)) * 37 % 101).astype(dtype).reshape(shape)
            for one in (array, array.T, array[..., ::-1] if shape else array):
                found = read_pickle(pickle.dumps({"data": one, "again": [one, one]}, protocol), "here")
                check_same(found, {"data": one, "again": [one, one]})
                assert found["again"][0] is found["data"]
                if array.size:
                    must_fail(check_same, found, {"data": one + 1, "again": [one, one]})


def python_2(data: bytes = bytes(range(6)), rows: int = 2, code: bytes = b"u1") -> bytes:
    """A CIFAR-10 batch as written by Python 2: protocol 2, strings as bytes."""
    width = len(data) // rows
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x07batch 1q\x03U\x06labelsq\x04]q\x05(K\x06K\x09e"
        b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08"
        b"K\x00\x85U\x01b\x87Rq\x09(K\x01M"
        + rows.to_bytes(2, "little")
        + b"M"
        + width.to_bytes(2, "little")
        + b"\x86"
        b"cnumpy\ndtype\nq\nU" + bytes([len(code)]) + code + b"K\x00K\x01\x87Rq\x0b"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T"
        + len(data).to_bytes(4, "little")
        + data
        + b"tbU\x09filenamesq\x0c]q\r(U\x05a.pngq\x0eU\x05b.pnge"
        b"u."
    )


def test_python_2_pickles_are_read_as_python_3_reads_them() -> None:
    data = bytes([255, 254, 0, 10, 128, 7])
    expected = pickle.loads(python_2(data), encoding="bytes")
    check_same(read_pickle(python_2(data), "here"), expected)
    assert expected[b"data"].tolist() == [[255, 254, 0], [10, 128, 7]]
    must_fail(check_same, read_pickle(python_2(data[::-1]), "here"), expected)
    oldest = b"(dp0\nS'labels'\np1\n(lp2\nI3\naL7L\naF1.5\naI01\nasS\"it\\'s\"\np3\n(I1\nS'x'\nNtp4\ns."
    expected = {b"labels": [3, 7, 1.5, True], b"it's": (1, b"x", None)}
    check_same(read_pickle(oldest, "here"), expected)
    check_same(pickle.loads(oldest, encoding="bytes"), expected)


COMMAND = b"touch %s"
# Each executes a shell command with the pickle module; bytes(map(os.system, [...])) needs no explicit call.
MAP = b"cbuiltins\nbytes\ncbuiltins\nmap\ncposix\nsystem\n(S'%s'\nl\x86"
EVALUATED = b'__import__("os").system("%s")'
ATTACKS: dict[str, bytes] = {
    "GLOBAL": b"cposix\nsystem\n(S'%s'\ntR.",
    "GLOBAL eval": b"c__builtin__\neval\n(S'%s'\ntR." % EVALUATED,
    "GLOBAL after data": b"\x80\x02}U\x04dataK\x01scposix\nsystem\n(S'%s'\ntR.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x05posix\x8c\x06system\x93S'%s'\n\x85R.",
    "STACK_GLOBAL eval": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93S'%s'\n\x85R." % EVALUATED,
    "INST": b"(S'%s'\niposix\nsystem\n.",
    "OBJ": b"(cposix\nsystem\nS'%s'\no.",
    "NEWOBJ": b"\x80\x02" + MAP + b"\x81\x85\x81.",
    "NEWOBJ_EX": b"\x80\x04" + MAP + b"}\x92\x85}\x92.",
    "BUILD": b"\x80\x02ccopyreg\n__newobj__\nctypes\nSimpleNamespace\n\x85R"
    b"}U\x0c__setstate__cposix\nsystem\nsbS'%s'\nb.",
    "EXT1": b"\x80\x02\x82\x01(S'%s'\ntR.",
    "EXT2": b"\x80\x02\x83\x01\x00(S'%s'\ntR.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00(S'%s'\ntR.",
    "PERSID": b"P%s\n.",
    "BINPERSID": b"S'%s'\nQ.",
}
REAL_READER = """
import copyreg, io, os, pathlib, pickle, sys
class Reader(pickle.Unpickler):
    persistent_load = staticmethod(os.system)
copyreg.add_extension("posix", "system", 1)
for path in pathlib.Path(sys.argv[1]).glob("*.pickle"):
    Reader(io.BytesIO(path.read_bytes())).load()
"""


def test_no_attack_is_executed_although_each_works_with_the_pickle_module(tmp_path: Path) -> None:
    marks = {name: tmp_path / f"{number}.mark" for number, name in enumerate(ATTACKS)}
    for name, attack in ATTACKS.items():
        content = attack % (COMMAND % bytes(marks[name]))
        assert "nothing was executed" in error_message(content), name
        marks[name].with_suffix(".pickle").write_bytes(content)

    def check() -> None:
        assert [name for name, mark in marks.items() if mark.exists()] == []

    check()
    subprocess.run([sys.executable, "-c", REAL_READER, str(tmp_path)], check=True, timeout=60)
    must_fail(check)
    assert all(mark.exists() for mark in marks.values())


def test_nothing_is_imported() -> None:
    def check() -> None:
        assert "this" not in sys.modules

    message = "the pickle refers to 'this s', which is not allowed; nothing was executed"
    check_error(b"cthis\ns\n.", message)
    check_error(b"\x80\x04\x8c\x04this\x8c\x01s\x93.", message)
    check()
    code = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1])); sys.exit('this' not in sys.modules)"
    subprocess.run([sys.executable, "-c", code, b"cthis\ns\n.".hex()], check=True, capture_output=True)


NOT_WRITTEN = "the pickle contains an array that numpy does not write"
NO_SHAPE = "the pickle contains an array with an invalid shape"
NEEDLESS = ", which is not allowed; nothing was executed"
NUMBERS_ONLY = "; allowed: plain numbers such as u1"
NO_CALL = "the pickle contains a call that is not allowed; nothing was executed"
NO_DATA = "the pickle contains a function or class as data"
NO_KEY = "the pickle contains an invalid key; allowed: strings of at most 100 characters"
NDARRAY = b"cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
DTYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNK\x00K\x00K\x00tb"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the pickle is damaged at byte 0, or it is not a pickle"),
        (b"\x80\x02", "the pickle is damaged at byte 0, or it is not a pickle"),
        (b"garbage", "the pickle is damaged at byte 0, or it is not a pickle"),
        (b"0garbage", f"the pickle contains the opcode POP{NEEDLESS}"),
        (b".", "the pickle does not end with one value"),
        (b"K\x01K\x02.", "the pickle does not end with one value"),
        (b"(K\x01.", "the pickle does not end with one value"),
        (b"K\x01.K\x02.", "3 bytes follow the end of the pickle"),
        (b"h\x07.", "the pickle is damaged at byte 0, or it is not a pickle"),
        (b"K\x01t.", "the pickle is damaged at byte 2, or it is not a pickle"),
        (b"K\x01\x86.", "the pickle is damaged at byte 2, or it is not a pickle"),
        (b"K\x01q\xffp-1\n.", "the pickle is damaged at byte 4, or it is not a pickle"),
        (b"K\x01p300000\n.", "the pickle is damaged at byte 2, or it is not a pickle"),
        (b"q\x00.", "the pickle is damaged at byte 0, or it is not a pickle"),
        (b"K\x01K\x02a.", "the pickle is damaged at byte 4, or it is not a pickle"),
        (b"K\x01K\x02K\x03s.", "the pickle is damaged at byte 6, or it is not a pickle"),
        (b"](K\x01u.", "the pickle is damaged at byte 4, or it is not a pickle"),
        (b"(K\x01d.", NO_KEY),
        (b"(U\x01ad.", "the pickle is damaged at byte 4, or it is not a pickle"),
        (b"K\x01K\x02b.", "the pickle is damaged at byte 4, or it is not a pickle"),
        (b"I" + b"7" * 5_000 + b"\n.", "the pickle is damaged at byte 0, or it is not a pickle"),
        (b"S'\\q'\n" * 3, "the pickle is damaged at byte"),
        (b"}K\x01K\x02s.", NO_KEY),
        (b"}K\x01\x85K\x02s.", NO_KEY),
        (b"}U\x65" + b"k" * 101 + b"K\x02s.", NO_KEY),
        (b"\x8f.", f"the pickle contains the opcode EMPTY_SET{NEEDLESS}"),
        (b"K\x012.", f"the pickle contains the opcode DUP{NEEDLESS}"),
        (b"\x80\x05\x97.", f"the pickle contains the opcode NEXT_BUFFER{NEEDLESS}"),
        (b"cnumpy\ndtype\n.", NO_DATA),
        (DTYPE + b".", NO_DATA),
        (DTYPE + b"\x85\x85.", NO_DATA),
        (b"]cnumpy\nndarray\na.", NO_DATA),
        (b"](" + NDARRAY + b"e.", NO_DATA),
        (b"}U\x01a" + NDARRAY + b"s.", NO_DATA),
        (NDARRAY + b".", NO_DATA),
        (b"K\x01)R.", NO_CALL),
        (b"cnumpy\nndarray\nK\x02\x85R.", NO_CALL),
        (b"cnumpy._core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85C\x01b\x87R.", NO_CALL),
        (b"c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.", NO_CALL),
        (b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", NO_CALL),
        (NDARRAY + b"K\x01b.", NOT_WRITTEN),
        (NDARRAY + b"(K\x01K\x02\x85" + DTYPE + b"\x89]tb.", NOT_WRITTEN),
        (
            NDARRAY + b"(K\x01K\x03\x85" + DTYPE + b"\x89C\x02abtb.",
            "the pickle contains an array of 3 bytes, but 2 bytes of data",
        ),
        (NDARRAY + b"(K\x01J\xff\xff\xff\xff\x85" + DTYPE + b"\x89C\x02abtb.", NO_SHAPE),
        (NDARRAY + b"(K\x01(" + b"K\x01" * 9 + b"t" + DTYPE + b"\x89C\x01atb.", NO_SHAPE),
        (python_2(code=b"O8"), f"the pickle contains an array of 'O8'{NUMBERS_ONLY}"),
        (python_2(code=b"V9"), f"the pickle contains an array of 'V9'{NUMBERS_ONLY}"),
        (python_2(code=b"u2"), "the pickle contains an array of 12 bytes, but 6 bytes of data"),
        (python_2(rows=2)[:-30], "the pickle is damaged at byte"),
        (pickle.dumps(np.array([{}, None])), f"the pickle contains an array of 'O8'{NUMBERS_ONLY}"),
        (pickle.dumps(np.array(["a"])), f"the pickle contains an array of 'U1'{NUMBERS_ONLY}"),
        (pickle.dumps({1, 2}), f"the pickle contains the opcode EMPTY_SET{NEEDLESS}"),
        (pickle.dumps(Path("/")), f"the pickle refers to 'pathlib PosixPath'{NEEDLESS}"),
        (pickle.dumps(ValueError, 0), f"the pickle refers to 'exceptions ValueError'{NEEDLESS}"),
        (b"c" + b"m" * 200 + b"\nn\n.", "the pickle refers to 'mmmmmmmmmm"),
    ],
)
def test_objects_other_than_plain_data_give_a_one_line_error(content: bytes, expected: str) -> None:
    def check(content: bytes) -> None:
        assert error_message(content).startswith(f"here: {expected}")

    check(content)
    must_fail(check, python_2())


def test_every_truncated_pickle_is_an_error() -> None:
    for content in (python_2(), *(pickle.dumps({"data": np.arange(7), "labels": [1]}, p) for p in range(6))):
        assert error_message(content) == ""
        for length in range(len(content)):
            assert error_message(content[:length]).startswith("here: the pickle ")


def test_deep_nesting_and_repetition_are_cheap() -> None:
    depth = 50_000
    found = read_pickle(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".", "here")
    for _ in range(depth - 1):
        (found,) = found
    assert found == []
    # Nested tuples with two references each: 2¹⁰⁰⁰ values, each stored once.
    laughs = b"K\x07\x85" + b"".join(b"r%bj%b\x86" % (slot, slot) for slot in map(four_bytes, range(1_000)))
    found = read_pickle(laughs + b".", "here")
    for _ in range(1_001):
        found = found[-1]
    assert found == 7
    assert (
        error_message(b"}" + laughs + b"K\x01s.") == f"here: {NO_KEY}"
    )  # computing its hash would never end


def four_bytes(number: int) -> bytes:
    return number.to_bytes(4, "little")


def test_a_pickle_cannot_create_more_bytes_than_it_contains() -> None:
    begin = b"](c_codecs\nencode\nq\x00X%bq\x01X\x06\x00\x00\x00latin1q\x02\x86Rq\x03" % (
        four_bytes(1_000_000) + b"x" * 1_000_000
    )
    assert error_message(begin + b"h\x03" * 100_000 + b"e.") == ""
    check_error(
        begin + b"h\x00h\x01h\x02\x86R" * 60_000 + b"e.", "the pickle creates more bytes than it contains"
    )


def test_a_pickle_with_too_many_opcodes_or_bytes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_pickle, "MOST_STEPS", 1_003)
    assert error_message(b"(" + b"N" * 1_000 + b"t.") == ""
    check_error(b"(" + b"N" * 1_001 + b"t.", "the pickle has more than 1,003 opcodes")
    monkeypatch.setattr(safe_pickle, "MOST_BYTES", 50)
    assert error_message(b"C\x2f" + b"x" * 47 + b".") == ""
    check_error(b"C\x30" + b"x" * 48 + b".", "the pickle has 51 bytes; allowed: at most 50")


def check_reads_or_refuses(content: bytes, read: Callable[[bytes], str] = error_message) -> bool:
    try:
        refused = read(content)
    except Exception as error:
        raise AssertionError(f"{content!r}: {error!r}") from error
    assert not refused or refused.startswith("here: the pickle ") or " bytes follow the end" in refused
    assert len(refused) < 300
    return not refused


def check_mutations(folder: Path, count: int) -> None:
    draw = random.Random(13)
    value = {
        "data": np.arange(35, dtype="u1").reshape(5, 7),
        "labels": [3, 1, 4, 1, 5],
        b"names": ("a", None, 1.5),
    }
    plain = [python_2(), *(pickle.dumps(value, protocol) for protocol in range(6))]
    hostile = [attack % (COMMAND % bytes(folder / "mark")) for attack in ATTACKS.values()]
    marks = (
        b"\n",
        b"c",
        b"R",
        b"(",
        b"t",
        b"q\x01",
        b"\x94",
        b"K\x00",
        b"U\x01",
        b"h\x01",
        b"b",
        b"\x93",
        b".",
    )
    read = 0
    for number in range(count):
        content = mutated(draw.choice(hostile if number % 4 == 0 else plain), marks, draw)
        read += check_reads_or_refuses(content)
    assert not (folder / "mark").exists()
    assert count / 100 < read < count / 2, read  # the damage is neither too small nor too large


def test_a_damaged_pickle_is_either_read_or_gives_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 2_000)
    must_fail(check_reads_or_refuses, b"garbage", lambda content: pickle.loads(content))


@pytest.mark.torture
def test_many_damaged_pickles_are_either_read_or_give_a_clear_error(tmp_path: Path) -> None:
    check_mutations(tmp_path, 100_000)


RUNNERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def check_runs_no_data(code: str) -> None:
    """Check that no module is imported that can execute data, and that nothing is evaluated."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            assert not RUNNERS & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in RUNNERS
        elif isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            assert call not in ("eval", "exec", "torch.load", "yaml.load", "numpy.load", "np.load"), call
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.unparse(node.value) == "False"


USER_CODE = "check/isolation/loading.py"  # executes user code in a separate process


def test_no_module_executes_the_content_of_a_data_file() -> None:
    paths = list(Path(limelight.__file__).parent.rglob("*.py"))
    others = [path for path in paths if not path.as_posix().endswith(USER_CODE)]
    assert len(others) == len(paths) - 1
    for path in others:
        check_runs_no_data(path.read_text())
    for code in (
        "import pickle",
        "def late():\n    from pickle import loads",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
    ):
        must_fail(check_runs_no_data, code)
