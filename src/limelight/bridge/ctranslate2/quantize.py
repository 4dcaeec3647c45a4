"""Weights of eight bits, of which seven are used."""

from typing import Any

import numpy as np
from ctranslate2.specs.model_spec import LayerSpec, NumpyVariable, Variable, visit_spec

# CPUs without VNNI add two products of an unsigned and a signed byte in sixteen bits. Weights up to 63 cannot
# overflow them (2 · 255 · 63 < 2^15); weights up to 127 can, and give wrong results without a message. A file
# may be used on another CPU than the one it was written on, so weights never use the eighth bit.
LARGEST = 63


def quantize(spec: LayerSpec) -> None:
    """Replace the matrices of a specification, after its `optimize`, by bytes with a scale per row."""
    visit_spec(spec, _quantize)


def _quantize(layer: Any, name: str, value: object) -> None:
    attribute = name.rpartition("/")[2]
    if not isinstance(value, Variable) or not hasattr(layer, f"{attribute}_scale"):
        return
    weight = value.numpy()
    most = np.abs(weight).max(1, keepdims=True)
    scale = (LARGEST / np.where(most == 0, LARGEST, most)).astype(np.float32)
    setattr(layer, attribute, NumpyVariable(np.rint(weight * scale).astype(np.int8)))
    setattr(layer, f"{attribute}_scale", NumpyVariable(scale[:, 0]))
