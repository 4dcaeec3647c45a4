"""Contenders take turns in one process, so that other load on the machine slows all of them down."""

import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

Contender = Callable[[], object]


def take_turns(contenders: dict[str, Contender], seconds: float) -> dict[str, list[float]]:
    """Seconds of each contender in each round; at least fifteen rounds, each starting with another one."""
    for run in contenders.values():
        run()  # warm-up: the first call allocates memory that later calls reuse
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[names[0]]) < 15:
        for name in names:
            begin = time.perf_counter()
            contenders[name]()
            times[name].append(time.perf_counter() - begin)
        names.append(names.pop(0))
    return times


def ratio(times: list[float], ours: list[float]) -> str:
    """Time divided by ours: median of the rounds, quartiles, and minimum divided by minimum."""
    ratios = [a / b for a, b in zip(times, ours, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f}; {min(times) / min(ours):.2f})"


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def machine() -> str:
    """CPU, number of threads and version of torch."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{cpu} ({capability}), {torch.get_num_threads()} threads, torch {torch.__version__}"
