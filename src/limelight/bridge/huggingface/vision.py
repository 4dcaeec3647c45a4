"""ViT and DeiT: image classifiers."""

from collections.abc import Callable

from torch import Tensor

from limelight.bridge.huggingface.bert import class_names
from limelight.bridge.huggingface.bert_layouts import ACTIVATIONS
from limelight.bridge.huggingface.folder import Asked, ModelFolder
from limelight.bridge.huggingface.imported import Plan, linear_names
from limelight.data.images.decode import Scaling
from limelight.errors import WrongInput
from limelight.models.vit import ViTConfig
from limelight.tasks.images.task import ImagesConfig, ImagesState

PARTS = {
    "self_residual.norm": "layernorm_before",
    "self_attention.query": "attention.attention.query",
    "self_attention.key": "attention.attention.key",
    "self_attention.value": "attention.attention.value",
    "self_attention.output": "attention.output.dense",
    "feedforward_residual.norm": "layernorm_after",
    "feedforward.expand": "intermediate.dense",
    "feedforward.contract": "output.dense",
}
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # the numbers of Pillow
HALF = [0.5, 0.5, 0.5]


def plan(folder: ModelFolder, wanted: str) -> Plan:
    """What becomes of a folder with ViT (Dosovitskiy et al. 2021) or DeiT (Touvron et al. 2021)."""
    asked = Asked(folder.config, folder.path / "config.json")
    distillation = _distillation(asked, folder.config["model_type"])
    if wanted not in ("", "images"):
        raise WrongInput(f"--task is {wanted!r}; allowed for this model: images")
    asked.must_be("qkv_bias", True)
    size, patch = asked.number("image_size", 224, most=4_096), asked.number("patch_size", 16)
    channels = asked.number("num_channels", 3)
    if channels not in (1, 3) or size % patch:
        given = f"num_channels is {channels}, image_size {size}, patch_size {patch}"
        raise WrongInput(f"{asked.place}: {given}; limelight has 1 or 3 channels and whole patches")
    depth = asked.number("num_hidden_layers", 12, most=1_000)
    settings = {
        "width": asked.number("hidden_size", 768),
        "heads": asked.number("num_attention_heads", 12),
        "hidden": asked.number("intermediate_size", 3072),
        "activation": asked.choice("hidden_act", ACTIVATIONS, "gelu"),
        "norm": "pre",
        "norm_epsilon": asked.real("layer_norm_eps", 1e-12),
        "depth": depth,
        "patch": patch,
        "pooling": "class-token",
        "distillation": distillation,
    }
    prefix = folder.config["model_type"]
    data = {"data": {"kind": "files", "size": min(size, 1024), "color": channels == 3}}
    return Plan(
        ImagesConfig,
        data,
        ViTConfig,
        settings,
        _state(folder, class_names(asked), channels, size),
        vit_names(prefix, depth, distillation),
        _prepare(f"{prefix}.embeddings", tokens=1 + (prefix == "deit")),
        unused=(f"{prefix}.pooler.", f"{prefix}.embeddings.mask_token"),
    )


def _distillation(asked: Asked, family: str) -> str:
    listed = asked.get("architectures") or ["?"]
    name = str(listed[0]) if isinstance(listed, list) else str(listed)
    if name.endswith("ForImageClassificationWithTeacher"):
        return "output"
    if not name.endswith("ForImageClassification"):
        raise WrongInput(f"{asked.place}: architectures is {name!r:.60}; allowed: …ForImageClassification")
    return "token" if family == "deit" else "none"


def vit_names(prefix: str, depth: int, distillation: str) -> dict[str, str]:
    """The names of all tensors, ours -> theirs; `patch_positions` are those without learned tokens."""
    embeddings = f"{prefix}.embeddings"
    found = linear_names({"patches.project": f"{embeddings}.patch_embeddings.projection"})
    found |= {"class_token": f"{embeddings}.cls_token", "positions.table": f"{embeddings}.patch_positions"}
    if distillation != "none":
        found["distillation_token"] = f"{embeddings}.distillation_token"
    for number in range(depth):
        found |= linear_names(PARTS, f"encoder.blocks.{number}.", f"{prefix}.encoder.layer.{number}.")
    head = {"output": "cls_classifier", "distillation_output": "distillation_classifier"}
    found |= linear_names(head if distillation == "output" else {"output": "classifier"})
    return found | linear_names({"encoder.norm": f"{prefix}.layernorm"})


def _prepare(embeddings: str, tokens: int) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """The positions of learned tokens are added to these tokens: only their sum counts."""

    def prepare(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        found = dict(weights)
        table_1TD = found.pop(f"{embeddings}.position_embeddings", None)
        if table_1TD is None:
            return found
        kernel = f"{embeddings}.patch_embeddings.projection.weight"
        if kernel in found:  # of a convolution whose stride is its size
            found[kernel] = found[kernel].flatten(1)
        found[f"{embeddings}.patch_positions"] = table_1TD[0, tokens:]
        for place, name in enumerate(("cls_token", "distillation_token")[:tokens]):
            if f"{embeddings}.{name}" in found:
                found[f"{embeddings}.{name}"] = (
                    found[f"{embeddings}.{name}"] + table_1TD[:, place : place + 1]
                )
        return found

    return prepare


def _state(folder: ModelFolder, names: tuple[str, ...], channels: int, size: int) -> ImagesState:
    """How images become pixels, from preprocessor_config.json."""
    place = folder.path / "preprocessor_config.json"
    asked = Asked(folder.json("preprocessor_config.json") or {}, place)
    asked.must_be("do_resize", True)
    asked.must_be("do_rescale", True)
    if abs(asked.real("rescale_factor", 1 / 255) - 1 / 255) > 1e-9:
        raise WrongInput(
            f"{place}: rescale_factor is {asked.get('rescale_factor')!r:.60}; limelight has 1/255"
        )
    mean, deviation = HALF[:channels], HALF[:channels]
    if asked.flag("do_normalize", True):
        mean, deviation = (_numbers(asked, key, channels) for key in ("image_mean", "image_std"))
    else:
        mean, deviation = [0.0] * channels, [1.0] * channels
    side = _side(asked, "size", size)
    crop = _side(asked, "crop_size", size) if asked.flag("do_center_crop", False) else side
    if crop != size:
        raise WrongInput(f"{place}: images have {crop} pixels per side; config.json has {size}")
    kind = asked.get("resample")
    kind = 2 if kind is None else kind
    if kind not in FILTERS:
        raise WrongInput(f"{place}: resample is {kind!r:.60}; limelight has {', '.join(map(str, FILTERS))}")
    scaling = {"fit": "stretch", "filter": FILTERS[kind], "crop_from": side if side != size else 0}
    return ImagesState(
        names=names,
        image=(channels, size, size),
        mean=tuple(mean),
        deviation=tuple(deviation),
        scaling=Scaling.model_validate(scaling),
    )


def _numbers(asked: Asked, key: str, count: int) -> list[float]:
    found = asked.get(key)
    found = HALF[:count] if found is None else found
    good = isinstance(found, list) and len(found) == count
    if not good or not all(isinstance(value, int | float) and 0 <= value < 1e6 for value in found):
        raise WrongInput(f"{asked.place}: {key} is {found!r:.60}; allowed: {count} numbers")
    return [float(value) for value in found]


def _side(asked: Asked, key: str, default: int) -> int:
    """The side of a square: a number, or an object with height and width."""
    found = asked.get(key)
    if isinstance(found, dict) and set(found) == {"height", "width"} and found["height"] == found["width"]:
        found = found["height"]
    found = default if found is None else found
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= 8_192:
        raise WrongInput(f"{asked.place}: {key} is {found!r:.80}; limelight has only equal height and width")
    return found
