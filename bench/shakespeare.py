"""Language models of characters on tiny-Shakespeare: the recipes of examples/characters, and nanoGPT.

Each contender is a command in a process of its own, with the default number of threads, and its whole time
counts: start, training, evaluations, checkpoints, figures. Our loss is that over the whole last tenth of the
text. nanoGPT runs its documented command for CPUs; its loss is the last estimate of its train.py, on random
windows of the same tenth. The small recipe and nanoGPT take turns, with another seed each time.

The environment variable SHAKESPEARE is the path of the text; NANOGPT, if it is set, is the folder of a
checkout in which data/shakespeare_char/prepare.py was run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.gpts import CHECKOUT
from bench.rounds import machine, row

RECIPES = Path(__file__).parent.parent / "examples" / "characters"
SEEDS = (1, 2, 3)
NANOGPT = {  # "I only have a macbook" in its README
    "device": "cpu",
    "compile": False,
    "eval_iters": 20,
    "log_interval": 1,
    "block_size": 64,
    "batch_size": 12,
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "max_iters": 2000,
    "lr_decay_iters": 2000,
    "dropout": 0.0,
}


def timed(command: list[str], folder: str | Path | None = None) -> tuple[float, str]:
    """Seconds and output of a command."""
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return time.perf_counter() - begin, done.stdout


def ours(name: str, seed: int) -> None:
    """Train a recipe, and print a row for each evaluation and one for the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        recipe = [str(RECIPES / f"{name}.toml"), "--data", os.environ["SHAKESPEARE"], "--out", str(out)]
        seconds, _ = timed([sys.executable, "-m", "limelight", "train", *recipe, "--set", f"seed={seed}"])
        report = json.loads((out / "report.json").read_text())
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    curve = ", ".join(f"{line['validation']['loss']:.3f}" for line in lines)
    loss = f"{report['metrics']['validation']['loss']:.3f}"
    print(row(f"{name}, seed {seed}", f"{seconds:.1f}", f"{report['seconds']:.1f}", loss, curve), flush=True)


def nanogpt(seed: int) -> None:
    """The documented run, with another seed: train.py has no option for it."""
    code = (Path(CHECKOUT or "") / "train.py").read_text().replace("manual_seed(1337", f"manual_seed({seed}")
    with tempfile.TemporaryDirectory() as out:
        settings = [f"--{name}={value}" for name, value in (NANOGPT | {"out_dir": out}).items()]
        command = [sys.executable, "-c", code, "config/train_shakespeare_char.py", *settings]
        seconds, printed = timed(command, CHECKOUT)
    curve = re.findall(r"step \d+: train loss [\d.]+, val loss ([\d.]+)", printed)
    print(row(f"nanoGPT, seed {seed}", f"{seconds:.1f}", "", curve[-1], ", ".join(curve[1:])), flush=True)


def main(_: float) -> None:
    print(f"\n## Tiny-Shakespeare\n\n{machine()}\n")
    titles = ("", "seconds", "of training", "validation loss", "at each evaluation")
    print(row(*titles), row(*["---"] * len(titles)), sep="\n", flush=True)
    for seed in SEEDS:
        if CHECKOUT:
            nanogpt(seed)
        ours("small", seed)
    ours("medium", 1)
    ours("large", 1)
