"""Read plain data from a pickle without executing it.

A pickle is a program, and Python's `pickle` module calls whatever functions it names. This module interprets
the opcodes itself and calls nothing: it supports numbers, strings, lists, tuples, dicts and numeric arrays.
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
MOST_STEPS = 300_000  # opcodes; a batch of 10,000 images needs 40,000
MOST_AXES = 8
LONGEST_NAME = 100  # characters of a key or a global
NUMBER = re.compile(r"[iu][1248]|f[248]", re.ASCII)  # the dtypes of plain numbers
CALLS = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy.core.numeric _frombuffer": "complete array",
    "numpy._core.numeric _frombuffer": "complete array",
    "numpy ndarray": "array type",
    "numpy dtype": "dtype",
    "_codecs encode": "bytes",  # how Python 3 pickles bytes for Python 2
    "__builtin__ bytes": "empty bytes",
}
CONSTANTS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
)
PYTHON_2_STRINGS = ("STRING", "BINSTRING", "SHORT_BINSTRING")  # bytes


class _Rejected(Exception):
    """The pickle is not plain data; the message is the reason."""


@dataclass(frozen=True)
class _Global:
    """A function or class that the pickle names, as a string: it is never imported."""

    call: str


@dataclass(eq=False)
class _Unfinished:
    """An array or a dtype that a later BUILD opcode completes."""

    code: str = ""  # of a dtype
    slots: list[int] = field(default_factory=list)  # where it is stored in the memo


class _Arguments(tuple[Any, ...]):
    """The arguments of a call: a tuple with elements that are not plain data."""


NOT_DATA = (_Global, _Unfinished, _Arguments, np.dtype)


def read_pickle(content: bytes, place: str) -> Any:
    """The pickled object, if it is plain data; `place` names the file in error messages.

    Arrays are read-only views of bytes. There is no recursion and no repeated copying, so that time and
    memory are bounded by the size of the pickle.
    """
    if len(content) > MOST_BYTES:
        raise WrongInput(f"{place}: the pickle has {len(content):,} bytes; allowed: at most {MOST_BYTES:,}")
    machine, offset = _PickleMachine(len(content)), 0
    try:
        for count, (opcode, argument, position) in enumerate(pickletools.genops(content)):
            offset = position or 0
            if count >= MOST_STEPS:
                raise _Rejected(f"the pickle has more than {MOST_STEPS:,} opcodes")
            machine.step(opcode.name, argument)
        if offset + 1 != len(content):
            raise _Rejected(f"{len(content) - offset - 1:,} bytes follow the end of the pickle")
        return machine.result()
    except _Rejected as error:
        raise WrongInput(f"{place}: {error}") from None
    except (ValueError, LookupError, OverflowError, EOFError, Warning):  # their messages may be very long
        raise WrongInput(
            f"{place}: the pickle is damaged at byte {offset:,}, or it is not a pickle"
        ) from None


class _PickleMachine:
    """The stack and the memo that the opcodes of a pickle work on."""

    def __init__(self, byte_limit: int) -> None:
        self._bytes_left = byte_limit  # bytes that may still be created from strings
        self._stack: list[Any] = []
        self._outer_stacks: list[list[Any]] = []  # below the open marks
        self._memo: dict[int, Any] = {}
        self._steps: dict[str, Callable[[Any], None]] = {
            **dict.fromkeys(CONSTANTS, self._push),
            **dict.fromkeys(PYTHON_2_STRINGS, lambda text: self._push(text.encode("latin-1"))),
            **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _: None),
            **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda slot: self._push(self._memo[slot])),
            **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self._put),
            "NONE": lambda _: self._push(None),
            "NEWTRUE": lambda _: self._push(True),
            "NEWFALSE": lambda _: self._push(False),
            "MEMOIZE": lambda _: self._put(len(self._memo)),
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
        """Execute one opcode."""
        if name not in self._steps:
            raise _Rejected(
                f"the pickle contains the opcode {name}, which is not allowed; nothing was executed"
            )
        self._steps[name](argument)

    def result(self) -> Any:
        """The object that remains on the stack."""
        if self._outer_stacks or len(self._stack) != 1:
            raise _Rejected("the pickle does not end with one value")
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
        self._outer_stacks.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        values, self._stack = self._stack, self._outer_stacks.pop()
        return values

    def _put(self, slot: int) -> None:
        # Real picklers count up; other numbers could be chosen to cause hash collisions.
        if not 0 <= slot < MOST_STEPS:
            raise IndexError
        self._memo[slot] = value = self._stack[-1]
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

    def _call(self, function: Any, arguments: Any) -> Any:
        match function.call if isinstance(function, _Global) else "", arguments:
            case "array", (_Global(call="array type"), tuple(), str() | bytes()):
                return _Unfinished()
            case "complete array", (
                bytes() | bytearray() as data,
                np.dtype() as dtype,
                tuple() as shape,
                order,
            ):
                return _array(shape, dtype, data, fortran=_one_of(("C", "F"), order) == "F")
            case "dtype", (code, int(), int()):
                return _Unfinished(_number(_text(code)))
            case "bytes", (str() as text, str() as coding) if coding == "latin1":
                self._bytes_left -= len(text)
                if self._bytes_left < 0:
                    raise _Rejected("the pickle creates more bytes than it contains")
                return text.encode("latin-1")
            case "empty bytes", ():
                return b""
        raise _Rejected("the pickle contains a call that is not allowed; nothing was executed")

    def _finish(self, unfinished: Any, state: Any) -> None:
        if not isinstance(unfinished, _Unfinished):
            raise ValueError
        complete: Any
        match state:
            case (int(), tuple() as shape, np.dtype() as dtype, int() as fortran, bytes() as data) if (
                not unfinished.code
            ):
                complete = _array(shape, dtype, data, fortran=bool(fortran))
            case (int(), order, None, None, None, int(), int(), int()) if unfinished.code:
                complete = np.dtype(_one_of(("<", ">", "|", "="), order) + unfinished.code)
            case _:
                raise _Rejected("the pickle contains an array that numpy does not write")
        for slot in unfinished.slots:
            if self._memo[slot] is unfinished:
                self._memo[slot] = complete
        unfinished.slots.clear()
        self._push(complete)


def _data(values: list[Any]) -> list[Any]:
    if any(isinstance(value, NOT_DATA) for value in values):
        raise _Rejected("the pickle contains a function or class as data")
    return values


def _tuple(values: list[Any]) -> tuple[Any, ...]:
    return _Arguments(values) if any(isinstance(value, NOT_DATA) for value in values) else tuple(values)


def _entries(values: list[Any]) -> Iterable[tuple[Any, Any]]:
    keys = values[::2]
    if any(type(key) not in (str, bytes) or len(key) > LONGEST_NAME for key in keys):
        raise _Rejected(
            f"the pickle contains an invalid key; allowed: strings of at most {LONGEST_NAME} characters"
        )
    return dict(zip(keys, _data(values[1::2]), strict=True))


def _global_of(module: Any, name: Any) -> _Global:
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError
    return _global(f"{module[:LONGEST_NAME]} {name[:LONGEST_NAME]}")


def _global(name: str) -> _Global:
    if name not in CALLS:
        raise _Rejected(f"the pickle refers to {short(name)}, which is not allowed; nothing was executed")
    return _Global(CALLS[name])


def _text(value: Any) -> str:
    """A string; Python 2 wrote strings as bytes."""
    if not isinstance(value, str | bytes) or len(value) > LONGEST_NAME:
        raise ValueError
    return value if isinstance(value, str) else value.decode("ascii")


def _number(code: str) -> str:
    if not NUMBER.fullmatch(code):
        raise _Rejected(f"the pickle contains an array of {short(code)}; allowed: plain numbers such as u1")
    return code


def _one_of(known: tuple[str, ...], value: Any) -> str:
    return known[known.index(_text(value))]


def _array(shape: tuple[Any, ...], dtype: Any, data: bytes | bytearray, *, fortran: bool) -> Any:
    if len(shape) > MOST_AXES or any(type(size) is not int or not 0 <= size <= MOST_BYTES for size in shape):
        raise _Rejected("the pickle contains an array with an invalid shape")
    needed = prod(shape) * dtype.itemsize
    if needed != len(data):
        raise _Rejected(f"the pickle contains an array of {needed:,} bytes, but {len(data):,} bytes of data")
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")
