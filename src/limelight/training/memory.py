"""Settings of the memory allocator for training."""

from limelight.systems import c_function

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # parameters of mallopt(3)


def keep_memory() -> None:
    """Let glibc keep freed memory instead of returning it to the system; no effect with other C libraries.

    Every step allocates the same amount of memory. New pages from the system must be cleared first, which
    takes about 5 % of the time of a step with a vocabulary of several thousand tokens.
    """
    mallopt = c_function("mallopt")
    if mallopt:
        mallopt(MMAP_THRESHOLD, 2**30)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
