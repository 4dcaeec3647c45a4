"""Sizes that a constructed module has, read off its attributes and its layers."""

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import Kind


def observed_sizes(model: nn.Module, kind: Kind, sizes: Sizes) -> Sizes:
    """The given sizes, with those that the module has in their places."""
    changes: dict[str, object] = dict(_attributes(model))
    changes |= _images(model, sizes) if kind.reads_images else _layers(model, kind)
    return sizes.replace(**changes)


def fitted_sizes(model: Any, out: Tensor, kind: Kind, sizes: Sizes) -> Sizes:
    """The given sizes, with the number of classes and the size of a patch that a model for images has."""
    changes = {"classes": out.shape[-1]} if kind.is_stack and out.dim() == 2 else {}
    parts = model.modules() if isinstance(model, nn.Module) else ()
    linear = next((part for part in parts if isinstance(part, (nn.Linear, nn.Conv2d))), None)
    if isinstance(linear, nn.Linear):
        patch = math.isqrt(linear.in_features // sizes.channels)
        if sizes.channels * patch * patch == linear.in_features and sizes.image[0] % patch == 0:
            changes["patch"] = patch
    return sizes.replace(**changes)


def _attributes(model: nn.Module) -> dict[str, int]:
    """Sizes that the module has as attributes, such as `self.num_heads`."""
    found: dict[str, int] = {}
    own = [part for part in model.modules() if not type(part).__module__.startswith("torch.nn.modules")]
    attentions = [part for part in model.modules() if isinstance(part, nn.MultiheadAttention)]
    for part in [*own, *attentions]:
        for name, value in vars(part).items():
            role = constructor_role(name) if type(value) is int and value > 0 else None
            if role in ("heads", "vocabulary", "longest"):
                found.setdefault(role, value)
    return found


def _layers(model: nn.Module, kind: Kind) -> dict[str, object]:
    """The width and the vocabulary of the first layers, and the hidden width of a feed-forward network."""
    found: dict[str, object] = {}
    embeddings = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    if embeddings:
        found["vocabulary"] = embeddings[0].num_embeddings
    width = next(_widths(model, kind), None)
    if width is None:
        return found
    found["width"] = width
    linear = [
        (part.in_features, part.out_features) for part in model.modules() if isinstance(part, nn.Linear)
    ]
    hidden = [h for w, h in linear if w == width and h != width and (h, width) in linear]
    if hidden:
        found["hidden"] = hidden[0]
    return found


def _widths(model: nn.Module, kind: Kind) -> Iterator[int]:
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            yield part.embedding_dim
        elif isinstance(part, nn.LayerNorm) and not kind.is_attention:
            yield part.normalized_shape[-1]
        elif isinstance(part, nn.Linear):
            yield part.in_features
        elif isinstance(part, nn.MultiheadAttention):
            yield part.embed_dim


def _images(model: nn.Module, sizes: Sizes) -> dict[str, object]:
    """The sizes of patches and images: by a convolution, and by the number of positions."""
    found: dict[str, object] = {}
    patch = sizes.patch
    convolution = next((part for part in model.modules() if isinstance(part, nn.Conv2d)), None)
    if convolution is not None:
        patch = convolution.kernel_size[0]
        found |= {"patch": patch, "channels": convolution.in_channels}
        found["width"] = convolution.out_channels
    tables = [p for name, p in model.named_parameters() if "pos" in name.lower() and p.dim() >= 2]
    for count in [table.shape[-2] for table in tables]:
        for patches in (count - 1, count):
            side = math.isqrt(max(patches, 0))
            if side and side * side == patches:
                found["image"] = (side * patch, side * patch)
                return found
    return found
