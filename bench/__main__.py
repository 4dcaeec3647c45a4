"""python -m bench [WORKLOAD] [--seconds N] [--threads N]: this library and its peers, side by side."""

import argparse
import importlib

import torch

WORKLOADS = ("multihead",)

parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
parser.add_argument("workload", nargs="?", choices=WORKLOADS, help="all of them unless named")
parser.add_argument("--seconds", type=float, default=20.0, help="for each line of a table (default 20)")
parser.add_argument("--threads", type=int, help="of torch (default: one a core)")
options = parser.parse_args()

if options.threads:
    torch.set_num_threads(options.threads)
for workload in [options.workload] if options.workload else WORKLOADS:
    importlib.import_module(f"bench.{workload}").main(options.seconds)
