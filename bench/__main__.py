"""Benchmarks of this library and others side by side: python -m bench multihead --threads 1"""

import argparse
import importlib
import os

WORKLOADS = (
    "multihead",
    "reversal",
    "translation",
    "decoding",
    "images",
    "maps",
    "busy",
    "language",
    "capture",
)
LONG = ("cifar10", "shakespeare", "engines")  # run only if they are named: they need data or much time

parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
parser.add_argument(
    "workload", nargs="?", choices=WORKLOADS + LONG, help=f"default: all but {' and '.join(LONG)}"
)
parser.add_argument("--seconds", type=float, default=10.0, help="per row of a table (default 10)")
parser.add_argument("--threads", type=int, help="threads of torch (default: one per core)")
options = parser.parse_args()

if options.threads:
    # Before torch is imported, not by torch.set_num_threads: that call also makes MKL split matrix
    # products that are too small for it, and short fused attention takes a third longer.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
importlib.import_module("bench.torchvision_operators")
for workload in [options.workload] if options.workload else WORKLOADS:
    importlib.import_module(f"bench.{workload}").main(options.seconds)
