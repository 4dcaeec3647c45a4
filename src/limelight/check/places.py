"""Lines of the checked code: where an operation was executed, or where an exception was raised."""

import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType

import torch

Place = tuple[str, int]  # a file and a line

_CHECK = str(Path(__file__).parent)
_LIBRARIES = (
    str(Path(torch.__file__).parent),
    *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


def places_of(frame: FrameType | None) -> tuple[Place, ...]:
    """The lines of the checked code that this frame and its callers execute, the innermost first."""
    found = []
    while frame is not None:
        file = frame.f_code.co_filename
        owner = _owner(file)
        if owner == "check":
            break
        if owner == "checked":
            found.append((file, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def place_of_error(error: BaseException) -> Place | None:
    """The innermost line of the checked code in the traceback of an exception."""
    found: Place | None = None
    part: TracebackType | None = error.__traceback__
    while part is not None:
        file = part.tb_frame.f_code.co_filename
        if is_checked(file):
            found = file, part.tb_lineno
        part = part.tb_next
    return found


def is_checked(file: str) -> bool:
    """Whether a file is one of the checked code, not of a library."""
    return _owner(file) == "checked"


@cache
def _owner(file: str) -> str:
    """Whose code it is: "check", "library" or "checked"."""
    if file.startswith(_CHECK):
        return "check"
    return "library" if file.startswith(("<", *_LIBRARIES)) else "checked"
