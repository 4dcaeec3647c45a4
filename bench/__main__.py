"""This library and its peers, side by side: python -m bench multihead --threads 1"""

import argparse
import importlib
import os

WORKLOADS = ("multihead", "reversal", "translation", "decoding", "images", "maps", "busy")
LONG = ("cifar10",)  # only when named: it takes forty minutes

parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
parser.add_argument("workload", nargs="?", choices=WORKLOADS + LONG, help="all but the long one unless named")
parser.add_argument("--seconds", type=float, default=10.0, help="for each line of a table (default 10)")
parser.add_argument("--threads", type=int, help="of torch (default: one a core)")
options = parser.parse_args()

if options.threads:
    # Before torch is imported, not by torch.set_num_threads: that call also makes MKL split matrix
    # products that are too small for it, and short fused attention takes a third longer.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
try:
    importlib.import_module("torchvision")
except RuntimeError:
    # Built for a GPU's torch, it has no operators here. Nobody calls them, but they must have names.
    import torch

    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)
for workload in [options.workload] if options.workload else WORKLOADS:
    importlib.import_module(f"bench.{workload}").main(options.seconds)
