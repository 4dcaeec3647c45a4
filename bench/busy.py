"""Training and inference while another program uses one core, compared with an idle machine."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bench.rounds import machine, row, take_turns
from limelight import adaptive_spinning
from limelight.models.sizes import Sizes
from limelight.models.vit import ViTConfig

ROUNDS = 5
RUNS = {"reverse": (), "translate": ("--set", "train.epochs=0.2"), "digits": ("--set", "train.epochs=6")}
MODEL = ViTConfig(width=192, depth=6, heads=6, hidden=768, patch=4)


@contextmanager
def one_busy_core() -> Iterator[None]:
    """Context in which another process uses one core."""
    load = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        load.kill()
        load.wait()


def train(recipe: str) -> float:
    """Seconds of training, as reported by the command."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "limelight",
            "train",
            recipe,
            *RUNS[recipe],
            "--out",
            f"{folder}/run",
        ]
        subprocess.run(command, check=True, capture_output=True)
        return json.loads(Path(folder, "run", "report.json").read_text())["seconds"]


def infer(batch: int) -> Callable[[], float]:
    """Seconds per batch of images."""
    model, images = MODEL.build(Sizes(outputs=10, image=(3, 32, 32))).eval(), torch.randn(batch, 3, 32, 32)

    @torch.no_grad()
    def measure() -> float:
        with adaptive_spinning():
            return statistics.median(take_turns({"model": lambda: model(images)}, 2.0)["model"])

    return measure


def main(seconds: float) -> None:
    print(f"\nbusy: another program uses one core; {machine()}\n")
    print(row("", "idle, s", "busy, s", "busy / idle: median (minimum, maximum)"))
    print(row("---", "---", "---", "---"))
    workloads: dict[str, Callable[[], float]] = {
        f"train {name}": lambda name=name: train(name) for name in RUNS
    }
    workloads |= {f"ViT inference, batch {size}": infer(size) for size in (1, 64)}
    for name, measure in workloads.items():
        idle, busy = list[float](), list[float]()
        for _ in range(ROUNDS):
            idle.append(measure())
            with one_busy_core():
                busy.append(measure())
        ratios = sorted(b / q for q, b in zip(idle, busy, strict=True))
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}, {ratios[-1]:.2f})"
        print(
            row(name, f"{statistics.median(idle):.3g}", f"{statistics.median(busy):.3g}", spread), flush=True
        )
