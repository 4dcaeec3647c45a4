"""Image classifiers of runs as ViT or DeiT."""

from typing import Any

import torch

from limelight.bridge.huggingface.export_encoders import named_classes
from limelight.bridge.huggingface.exported import (
    ACTIVATIONS,
    Export,
    Weights,
    attention_dropout,
    check_settings,
    heads_of,
    renamed,
)
from limelight.bridge.huggingface.vision import FILTERS, vit_names
from limelight.data.images.decode import Scaling
from limelight.errors import WrongInput
from limelight.models.vit import ViTConfig
from limelight.tasks.images.task import ImagesState

AUTO = "AutoModelForImageClassification"
ARCHITECTURES = {
    "none": "ViTForImageClassification",
    "token": "DeiTForImageClassification",
    "output": "DeiTForImageClassificationWithTeacher",
}


def export_vit(config: ViTConfig, task: Any, weights: Weights) -> Export:
    """ViT (Dosovitskiy et al. 2021), or with distillation DeiT (Touvron et al. 2021)."""
    allowed: dict[str, tuple[Any, ...]] = {
        "norm": ("pre",),
        "positions": ("learned",),
        "pooling": ("class-token",),
        "feedforward": ("plain",),
        "bias": ("all",),
        "key_value_heads": heads_of(config),
        "query_key_norm": (False,),
    }
    architecture = ARCHITECTURES[config.distillation]
    prefix = "vit" if config.distillation == "none" else "deit"
    check_settings(config, "DeiT" if prefix == "deit" else "ViT", allowed)
    state = ImagesState.model_validate_json(task.state)
    channels, rows, columns = state.image
    if rows != columns:
        raise WrongInput(f"the images have {rows} × {columns} pixels; limelight reads only square ones back")
    found = renamed(weights, vit_names(prefix, config.depth, config.distillation))
    kernel = f"{prefix}.embeddings.patch_embeddings.projection.weight"
    found[kernel] = found[kernel].unflatten(1, (channels, config.patch, config.patch))
    # The positions of the learned tokens are part of these tokens.
    zeros_TD = torch.zeros(1 if prefix == "vit" else 2, config.width)
    table_PD = found.pop(f"{prefix}.embeddings.patch_positions")
    found[f"{prefix}.embeddings.position_embeddings"] = torch.cat((zeros_TD, table_PD)).unsqueeze(0)
    settings = {
        "model_type": prefix,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": ACTIVATIONS[config.activation],
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": attention_dropout(config),
        "image_size": rows,
        "patch_size": config.patch,
        "num_channels": channels,
        "qkv_bias": True,
        **named_classes(state.names),
    }
    scaled, notes = _preprocessor(state)
    files = {"preprocessor_config.json": scaled}
    return Export(architecture, AUTO, settings, found, weights, files, notes)


def _preprocessor(state: ImagesState) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How images become pixels. Our usual way, to cover a square and to crop it, has no exact counterpart."""
    scaling, size = state.scaling, state.image[1]
    kinds = {name: number for number, name in FILTERS.items()}
    side = scaling.crop_from or size
    found: dict[str, Any] = {
        "image_processor_type": "DeiTImageProcessor" if scaling.crop_from else "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": kinds[scaling.filter],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(state.mean),
        "image_std": list(state.deviation),
    }
    if scaling.crop_from:
        found |= {"do_center_crop": True, "crop_size": {"height": size, "width": size}}
    return found, _notes(scaling, size, state.image[0])


def _notes(scaling: Scaling, size: int, channels: int) -> tuple[str, ...]:
    found = list[str]()
    if scaling.fit == "cover":
        found.append(
            f"images of {size} × {size} pixels become the same pixels; limelight scales and crops others so "
            "that they cover the square, but the image processor of transformers stretches them"
        )
    if channels == 1:
        found.append("images have one channel: convert them to greyscale before the image processor")
    return tuple(found)
