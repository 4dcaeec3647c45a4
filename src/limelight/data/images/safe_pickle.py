"""Data from a pickle without running it: a pickle is a program, and of its language only data is understood.

Python's own reader calls whatever a file names. This one calls nothing that a file names: it walks the
program step by step and builds numbers, texts, lists, tuples, dicts and numpy's arrays of plain numbers.
"""

import pickletools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from limelight.data.text.delimited import short
from limelight.errors import WrongInput

MOST_BYTES = 200_000_000
MOST_STEPS = 300_000  # a batch of 10,000 images takes 40,000
MOST_AXES = 8
LONGEST_NAME = 100  # of a key or a global: longer ones can only cost time
NUMBER = re.compile(r"[iu][1248]|f[248]", re.ASCII)  # the dtypes of plain numbers
CALLS = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy.core.numeric _frombuffer": "whole array",
    "numpy._core.numeric _frombuffer": "whole array",
    "numpy ndarray": "array type",
    "numpy dtype": "dtype",
    "_codecs encode": "bytes",  # how Python 3 writes bytes for Python 2
    "__builtin__ bytes": "no bytes",
}
AS_THEY_ARE = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
)
PYTHON_2_TEXTS = ("STRING", "BINSTRING", "SHORT_BINSTRING")  # they are bytes


class _Refused(Exception):
    """Why the pickle is not read."""


@dataclass(frozen=True)
class _Global:
    """Stands for something that a pickle wants to call. It is a word, and nothing is looked up."""

    call: str


@dataclass(eq=False)
class _Unfinished:
    """An array or a dtype of which a later step tells the rest."""

    code: str = ""  # of a dtype
    slots: list[int] = field(default_factory=list)  # where it is remembered


class _Parts(tuple[Any, ...]):
    """A tuple for a call: what is in it is no data yet."""


NO_DATA = (_Global, _Unfinished, _Parts, np.dtype)


def read_pickle(content: bytes, place: str) -> Any:
    """What was pickled, if it is plain data; `place` is named where it is refused.

    Arrays are views of bytes, which may not be written to. Nothing recurses and nothing is copied twice, so
    that time and memory are bounded by the length of the pickle.
    """
    if len(content) > MOST_BYTES:
        raise WrongInput(f"{place}: the pickle has {len(content):,} bytes, more than {MOST_BYTES:,}")
    machine, at = _Machine(len(content)), 0
    try:
        for count, (opcode, argument, position) in enumerate(pickletools.genops(content)):
            at = position or 0
            if count >= MOST_STEPS:
                raise _Refused(f"the pickle has more than {MOST_STEPS:,} steps")
            machine.step(opcode.name, argument)
        if at + 1 != len(content):
            raise _Refused(f"{len(content) - at - 1:,} bytes follow the end of the pickle")
        return machine.result()
    except _Refused as error:
        raise WrongInput(f"{place}: {error}") from None
    except (ValueError, LookupError, OverflowError, EOFError, Warning):  # their texts may be very long
        raise WrongInput(f"{place}: the pickle is damaged at byte {at:,}, or it is no pickle") from None


class _Machine:
    """The stack and the memory that the steps of a pickle work on."""

    def __init__(self, room: int) -> None:
        self._room = room  # bytes that may still be made from texts
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks that open marks have hidden
        self._memory: dict[int, Any] = {}
        self._steps: dict[str, Callable[[Any], None]] = {
            **dict.fromkeys(AS_THEY_ARE, self._push),
            **dict.fromkeys(PYTHON_2_TEXTS, lambda text: self._push(text.encode("latin-1"))),
            **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _: None),
            **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda slot: self._push(self._memory[slot])),
            **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self._put),
            "NONE": lambda _: self._push(None),
            "NEWTRUE": lambda _: self._push(True),
            "NEWFALSE": lambda _: self._push(False),
            "MEMOIZE": lambda _: self._put(len(self._memory)),
            "MARK": lambda _: self._mark(),
            "EMPTY_LIST": lambda _: self._push([]),
            "EMPTY_DICT": lambda _: self._push({}),
            "EMPTY_TUPLE": lambda _: self._push(()),
            "LIST": lambda _: self._push(_data(self._since_mark())),
            "DICT": lambda _: self._push(_entries(self._since_mark())),
            "TUPLE": lambda _: self._push(_tuple(self._since_mark())),
            "TUPLE1": lambda _: self._push(_tuple(self._pop(1))),
            "TUPLE2": lambda _: self._push(_tuple(self._pop(2))),
            "TUPLE3": lambda _: self._push(_tuple(self._pop(3))),
            "APPEND": lambda _: self._extend(self._pop(1)),
            "APPENDS": lambda _: self._extend(self._since_mark()),
            "SETITEM": lambda _: self._update(self._pop(2)),
            "SETITEMS": lambda _: self._update(self._since_mark()),
            "GLOBAL": lambda name: self._push(_global(name)),
            "STACK_GLOBAL": lambda _: self._push(_global_of(*self._pop(2))),
            "REDUCE": lambda _: self._push(self._call(*self._pop(2))),
            "BUILD": lambda _: self._finish(*self._pop(2)),
        }

    def step(self, name: str, argument: Any) -> None:
        if name not in self._steps:
            raise _Refused(f"the pickle has a step {name}, which plain data does not need; nothing was run")
        self._steps[name](argument)

    def result(self) -> Any:
        if self._below or len(self._stack) != 1:
            raise _Refused("the pickle does not end with one value")
        return _data(self._stack)[0]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self, count: int) -> list[Any]:
        values = self._stack[-count:]
        if len(values) < count:
            raise IndexError
        del self._stack[-count:]
        return values

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        values, self._stack = self._stack, self._below.pop()
        return values

    def _put(self, slot: int) -> None:
        # Real picklers count; other numbers could be chosen so that looking them up takes very long.
        if not 0 <= slot < MOST_STEPS:
            raise IndexError
        self._memory[slot] = value = self._stack[-1]
        if isinstance(value, _Unfinished):
            value.slots.append(slot)

    def _extend(self, values: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise ValueError
        self._stack[-1].extend(_data(values))

    def _update(self, values: list[Any]) -> None:
        if type(self._stack[-1]) is not dict:
            raise ValueError
        self._stack[-1].update(_entries(values))

    def _call(self, what: Any, arguments: Any) -> Any:
        match what.call if isinstance(what, _Global) else "", arguments:
            case "array", (_Global(call="array type"), tuple(), str() | bytes()):
                return _Unfinished()
            case "whole array", (bytes() | bytearray() as data, np.dtype() as dtype, tuple() as shape, order):
                return _array(shape, dtype, data, fortran=_one_of(("C", "F"), order) == "F")
            case "dtype", (code, int(), int()):
                return _Unfinished(_number(_text(code)))
            case "bytes", (str() as text, str() as coding) if coding == "latin1":
                self._room -= len(text)
                if self._room < 0:
                    raise _Refused("the pickle makes more bytes than it has")
                return text.encode("latin-1")
            case "no bytes", ():
                return b""
        raise _Refused("the pickle has a call that plain data does not need; nothing was run")

    def _finish(self, unfinished: Any, state: Any) -> None:
        if not isinstance(unfinished, _Unfinished):
            raise ValueError
        made: Any
        match state:
            case (int(), tuple() as shape, np.dtype() as dtype, int() as fortran, bytes() as data) if (
                not unfinished.code
            ):
                made = _array(shape, dtype, data, fortran=bool(fortran))
            case (int(), order, None, None, None, int(), int(), int()) if unfinished.code:
                made = np.dtype(_one_of(("<", ">", "|", "="), order) + unfinished.code)
            case _:
                raise _Refused("the pickle has an array that numpy does not write")
        for slot in unfinished.slots:
            if self._memory[slot] is unfinished:
                self._memory[slot] = made
        unfinished.slots.clear()
        self._push(made)


def _data(values: list[Any]) -> list[Any]:
    if any(isinstance(value, NO_DATA) for value in values):
        raise _Refused("the pickle has something that is no data where data must stand")
    return values


def _tuple(values: list[Any]) -> tuple[Any, ...]:
    return _Parts(values) if any(isinstance(value, NO_DATA) for value in values) else tuple(values)


def _entries(values: list[Any]) -> Iterable[tuple[Any, Any]]:
    keys = values[::2]
    if any(type(key) not in (str, bytes) or len(key) > LONGEST_NAME for key in keys):
        raise _Refused(f"the pickle has a key that is no text of at most {LONGEST_NAME} characters")
    return dict(zip(keys, _data(values[1::2]), strict=True))


def _global_of(module: Any, name: Any) -> _Global:
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError
    return _global(f"{module[:LONGEST_NAME]} {name[:LONGEST_NAME]}")


def _global(name: str) -> _Global:
    if name not in CALLS:
        raise _Refused(f"the pickle names {short(name)}, which plain data does not need; nothing was run")
    return _Global(CALLS[name])


def _text(value: Any) -> str:
    """Python 2 wrote texts as bytes."""
    if not isinstance(value, str | bytes) or len(value) > LONGEST_NAME:
        raise ValueError
    return value if isinstance(value, str) else value.decode("ascii")


def _number(code: str) -> str:
    if not NUMBER.fullmatch(code):
        raise _Refused(f"the pickle has an array of {short(code)}; allowed: plain numbers such as u1")
    return code


def _one_of(known: tuple[str, ...], value: Any) -> str:
    return known[known.index(_text(value))]


def _array(shape: tuple[Any, ...], dtype: Any, data: bytes | bytearray, *, fortran: bool) -> Any:
    if len(shape) > MOST_AXES or any(type(size) is not int or not 0 <= size <= MOST_BYTES for size in shape):
        raise _Refused("the pickle has an array whose shape is none")
    needed = prod(shape) * dtype.itemsize
    if needed != len(data):
        raise _Refused(f"the pickle has an array of {needed:,} bytes, of which {len(data):,} are there")
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")
