"""How much memory there is, and a refusal of what needs more before it is begun."""

import os
from contextlib import suppress
from pathlib import Path

from limelight.errors import WrongInput

GIGABYTE = 10**9


def check_memory(needed: float, hint: str, *, so_far: bool = False) -> None:
    """Refuse what needs more bytes than are free; `hint` says what would need less.

    `so_far`: the bytes of the part that has been counted; the whole needs more.
    """
    free = free_memory()
    if free is not None and needed > free:
        needs = f"{'more than' if so_far else 'about'} {_show(needed)}"
        raise WrongInput(f"this needs {needs} of memory, and {_show(free)} are free; {hint}")


def free_memory() -> float | None:
    """Bytes that this process can still get, of the machine and of its control group; None: not known."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")))
    with suppress(OSError, ValueError):  # "max": no limit
        group = Path("/sys/fs/cgroup")
        limit, used = (float((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        found.append(limit - used + float(facts.get("inactive_file", 0)))  # cached files make room
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _show(size: float) -> str:
    """In gigabytes, two digits."""
    gigabytes = max(size / GIGABYTE, 0)
    return f"{gigabytes:,.0f} GB" if gigabytes >= 10 else f"{gigabytes:.1f} GB"
