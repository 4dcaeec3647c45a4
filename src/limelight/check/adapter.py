"""A few lines to fill in, where someone's code is not understood."""

import shlex
from pathlib import Path

from limelight.check.isolation.notebook import NOTEBOOK

IMPORT = """from {stem} import {name}


"""

FUNCTION = """def adapted({arguments}):  # {shapes}
    return {name}(...)
"""

CLASS = """class Adapted({name}):
    def __init__(self, {settings}):
        super().__init__(...)

    def forward(self, {arguments}):  # {shapes}
        return super().forward(...)
"""

_MASK = "mask (B, T, S): True = may attend"
_ARGUMENTS = {
    "masked-softmax": ("scores, mask=None", f"(B, T, S), {_MASK}"),
    "scaled-dot-product": ("queries, keys, values, mask=None", f"(B, T, K), (B, S, K), (B, S, V), {_MASK}"),
    "causal-mask": ("size", "-> (size, size)"),
    "decoder-block": ("x, memory, mask=None, memory_mask=None", f"(B, T, D), (B, S, D), {_MASK}"),
    "decoder": ("x, memory, mask=None, memory_mask=None", f"(B, T) tokens or (B, T, D), (B, S, D), {_MASK}"),
    "sequence-model": ("source, target", "(B, S) tokens, (B, T) tokens"),
    "positional-encoding": ("x", "(B, T, D) -> (B, T, D)"),
    "feed-forward": ("x", "(B, T, D) -> (B, T, D)"),
    "patch-embedding": ("images", "(B, C, Y, X) -> (B, patches, D)"),
    "vision-transformer": ("images", "(B, C, Y, X) -> (B, classes)"),
}
_OF_ATTENTION = ("queries, keys, values, mask=None", f"(B, T, D), (B, S, D), (B, S, D), {_MASK}")
_OF_SEQUENCES = ("x, mask=None", f"(B, T, D), {_MASK}")
_SETTINGS = {
    "dot-product-attention": "dropout=0.0",
    "additive-attention": "width, dropout=0.0",
    "multi-head-attention": "width, heads, dropout=0.0",
    "positional-encoding": "width, max_len, dropout=0.0",
    "feed-forward": "width, hidden, dropout=0.0",
    "encoder-block": "width, heads, hidden, dropout=0.0",
    "decoder-block": "width, heads, hidden, dropout=0.0",
    "patch-embedding": "image_size, patch_size, channels, width",
    "vision-transformer": "image_size, patch_size, channels, width, depth, heads, hidden, classes, "
    "dropout=0.0",
}


def adapter(file: Path, name: str, kind: str, *, is_class: bool) -> str:
    """To be saved beside the file as adapted.py, or put into a cell, with the dots filled in."""
    attention = kind in ("dot-product-attention", "additive-attention", "multi-head-attention")
    arguments, shapes = _ARGUMENTS.get(kind, _OF_ATTENTION if attention else _OF_SEQUENCES)
    settings = _SETTINGS.get(kind, "width, heads, hidden, depth, dropout=0.0")
    in_a_cell = file.suffix == NOTEBOOK
    text = ("" if in_a_cell else IMPORT) + (CLASS if is_class else FUNCTION)
    lines = text.format(stem=file.stem, name=name, arguments=arguments, shapes=shapes, settings=settings)
    adapted = f"{file.name if in_a_cell else 'adapted.py'}::{'Adapted' if is_class else 'adapted'}"
    return f"{lines}# limelight check {shlex.quote(adapted)} --as {kind}\n"
