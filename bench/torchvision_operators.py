"""Makes torchvision importable, which transformers, timm and vit-pytorch import.

A build of torchvision for GPUs lacks its operators beside a torch for CPUs. They are never called here, but
must be registered.
"""

import importlib

import torch

try:
    importlib.import_module("torchvision")
except RuntimeError:
    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)
