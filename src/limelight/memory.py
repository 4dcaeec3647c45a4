"""How much memory is free, and an early error for work that needs more."""

import os
from contextlib import suppress
from pathlib import Path

from limelight.errors import WrongInput

GIGABYTE = 10**9


def check_memory(needed: float, hint: str, *, so_far: bool = False) -> None:
    """Raise `WrongInput` if `needed` bytes are more than the free memory; `hint` tells how to need less.

    `so_far`: `needed` counts only a part, so the message reads "more than" instead of "about".
    """
    free = free_memory()
    if free is not None and needed > free:
        needs = f"{'more than' if so_far else 'about'} {_show(needed)}"
        raise WrongInput(f"this needs {needs} of memory, but only {_show(free)} are free; {hint}")


def free_memory() -> float | None:
    """Bytes that this process can allocate, by this machine and its control group; None if unknown."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        found.append(next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")))
    with suppress(OSError, ValueError):  # the limit is "max" if there is none
        group = Path("/sys/fs/cgroup")
        limit, used = (float((group / f"memory.{name}").read_text("utf-8")) for name in ("max", "current"))
        facts = dict(line.split() for line in (group / "memory.stat").read_text("utf-8").splitlines())
        found.append(limit - used + float(facts.get("inactive_file", 0)))  # cached files are freed on demand
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _show(size: float) -> str:
    """In gigabytes, with two significant digits."""
    gigabytes = max(size / GIGABYTE, 0)
    return f"{gigabytes:,.0f} GB" if gigabytes >= 10 else f"{gigabytes:.1f} GB"
