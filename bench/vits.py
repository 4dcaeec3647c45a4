"""Four Vision Transformers of the same size: ours, timm, Hugging Face and vit-pytorch.

Ours, timm's and Hugging Face's can have the same weights. vit-pytorch has no biases in its projections of
queries, keys and values, and two more norms around the patches: the same width, depth and patch size, but
another architecture.
"""

from collections.abc import Callable

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from transformers import ViTConfig as TheirConfig
from transformers import ViTForImageClassification
from vit_pytorch import ViT as PytorchViT

from limelight.models.sizes import Sizes
from limelight.models.vit import ViT, ViTConfig

CONFIG = ViTConfig(patch=4, width=192, depth=6, heads=6, hidden=768)
SIZES = Sizes(outputs=10, image=(3, 32, 32))
EPSILON = 1e-5  # of norms, the default of torch

Weights = dict[str, Tensor]


class HuggingFace(nn.Module):
    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.model = ViTForImageClassification(TheirConfig(**settings))

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).logits


def vits(*, alike: bool) -> dict[str, nn.Module]:
    """The models by name; if `alike`, with the same weights where that is possible."""
    ours = CONFIG.build(SIZES)
    timm = VisionTransformer(
        img_size=32,
        patch_size=CONFIG.patch,
        num_classes=SIZES.outputs,
        embed_dim=CONFIG.width,
        depth=CONFIG.depth,
        num_heads=CONFIG.heads,
        mlp_ratio=CONFIG.hidden / CONFIG.width,
        norm_layer=lambda width, **_: nn.LayerNorm(width),
    )
    hugging_face = HuggingFace(
        hidden_size=CONFIG.width,
        num_hidden_layers=CONFIG.depth,
        num_attention_heads=CONFIG.heads,
        intermediate_size=CONFIG.hidden,
        image_size=32,
        patch_size=CONFIG.patch,
        num_labels=SIZES.outputs,
        layer_norm_eps=EPSILON,
    )
    pytorch = PytorchViT(
        image_size=32,
        patch_size=CONFIG.patch,
        num_classes=SIZES.outputs,
        dim=CONFIG.width,
        depth=CONFIG.depth,
        heads=CONFIG.heads,
        dim_head=CONFIG.width // CONFIG.heads,
        mlp_dim=CONFIG.hidden,
    )
    if alike:
        timm.load_state_dict(for_timm(ours))
        hugging_face.model.load_state_dict(for_hugging_face(ours))
    return {"limelight": ours, "timm": timm, "Hugging Face": hugging_face, "vit-pytorch": pytorch}


def around_blocks(ours: ViT, token: str, positions: str, patches: str, norm: str, output: str) -> Weights:
    """Weights outside the blocks, by the names of the other library. Its class token has position zero."""
    table_1TD = torch.cat((torch.zeros(1, CONFIG.width), ours.positions.table)).unsqueeze(0)
    kernel = ours.patches.project.weight.view(CONFIG.width, 3, CONFIG.patch, CONFIG.patch)
    return {
        token: ours.class_token,
        positions: table_1TD,
        f"{patches}.weight": kernel,
        f"{patches}.bias": ours.patches.project.bias,
        **named(norm, ours.encoder.norm),
        **named(output, ours.output),
    }


def in_blocks(ours: ViT, block: str, parts: Callable[[nn.Module], dict[str, nn.Module]]) -> Weights:
    weights: Weights = {}
    for number, mine in enumerate(ours.encoder.blocks):
        for name, part in parts(mine).items():
            weights |= named(f"{block}.{number}.{name}", part)
    return weights


def named(name: str, part: nn.Module) -> Weights:
    return {f"{name}.{key}": value for key, value in part.state_dict().items()}


def for_timm(ours: ViT) -> Weights:
    def parts(block: nn.Module) -> dict[str, nn.Module]:
        return {
            "norm1": block.self_residual.norm,
            "attn.proj": block.self_attention.output,
            "norm2": block.feedforward_residual.norm,
            "mlp.fc1": block.feedforward.expand,
            "mlp.fc2": block.feedforward.contract,
        }

    weights = around_blocks(ours, "cls_token", "pos_embed", "patch_embed.proj", "norm", "head")
    weights |= in_blocks(ours, "blocks", parts)
    for number, block in enumerate(ours.encoder.blocks):
        three = [block.self_attention.query, block.self_attention.key, block.self_attention.value]
        weights[f"blocks.{number}.attn.qkv.weight"] = torch.cat([one.weight for one in three])
        weights[f"blocks.{number}.attn.qkv.bias"] = torch.cat([one.bias for one in three])
    return weights


def for_hugging_face(ours: ViT) -> Weights:
    def parts(block: nn.Module) -> dict[str, nn.Module]:
        return {
            "layernorm_before": block.self_residual.norm,
            "attention.q_proj": block.self_attention.query,
            "attention.k_proj": block.self_attention.key,
            "attention.v_proj": block.self_attention.value,
            "attention.o_proj": block.self_attention.output,
            "layernorm_after": block.feedforward_residual.norm,
            "mlp.fc1": block.feedforward.expand,
            "mlp.fc2": block.feedforward.contract,
        }

    before = "vit.embeddings"
    return around_blocks(
        ours,
        f"{before}.cls_token",
        f"{before}.position_embeddings",
        f"{before}.patch_embeddings.projection",
        "vit.layernorm",
        "classifier",
    ) | in_blocks(ours, "vit.layers", parts)
