"""Memory that a process keeps for itself."""

import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of mallopt(3)


def keep_memory() -> None:
    """Let the C library keep what is freed, where it is glibc.

    Every step asks for the same megabytes. Given back to the system in between, they come as fresh pages
    that must be cleared: a twentieth of a step's time over a vocabulary of thousands.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(MMAP_THRESHOLD, 2**30)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
