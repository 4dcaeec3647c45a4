"""The cost of `view.capture`, compared with the model's own eager attention that returns its weights.

All models have 256 tokens, one sequence, random weights and no gradients. For Hugging Face, the model with
its default attention (fused) is captured, and the eager one returns its weights. The weights are compared
first. Other models cannot return their weights: there, the time is compared with an ordinary call.
"""

from collections.abc import Callable
from typing import Any

import timm
import torch
import transformers
from torch import Tensor, nn
from x_transformers import Decoder, TransformerWrapper

from bench.rounds import machine, ratio, row, take_turns
from limelight.view import capture

LENGTH, DEPTH = 256, 4
SIZES = (64, 256, 768)

Call = Callable[[], Any]


def hugging_face(width: int) -> dict[str, tuple[nn.Module, nn.Module, dict[str, Tensor]]]:
    """Models with their default attention, the same with the eager one, and inputs."""
    heads = max(1, width // 64)
    text = {"vocab_size": 1000, "max_position_embeddings": LENGTH}
    shared = {
        "hidden_size": width,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }
    gpt2 = {"vocab_size": 1000, "n_positions": LENGTH, "n_embd": width, "n_layer": DEPTH, "n_head": heads}
    kinds = {
        "BERT": (transformers.BertModel, transformers.BertConfig, text | shared),
        "GPT-2": (transformers.GPT2LMHeadModel, transformers.GPT2Config, gpt2),
        "Llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig, text | shared),
        "ViT": (
            transformers.ViTModel,
            transformers.ViTConfig,
            shared | {"image_size": 256, "patch_size": 16},
        ),
    }
    ids = {"input_ids": torch.randint(1000, (1, LENGTH))}
    found = {}
    for name, (kind, config, settings) in kinds.items():
        eager = kind(config(**settings, attn_implementation="eager")).eval()
        fused = kind(config(**settings)).eval()
        fused.load_state_dict(eager.state_dict())
        inputs = {"pixel_values": torch.randn(1, 3, 256, 256)} if name == "ViT" else ids
        found[name] = (fused, eager, inputs)
    return found


def others(width: int) -> dict[str, tuple[nn.Module, Tensor]]:
    """Models of other libraries, and inputs."""
    heads = max(1, width // 64)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, activation="gelu")
    vit = {"img_size": 256, "patch_size": 16, "embed_dim": width, "depth": DEPTH, "num_heads": heads}
    layers = Decoder(dim=width, depth=DEPTH, heads=heads, attn_dim_head=width // heads)
    return {
        "torch TransformerEncoder": (nn.TransformerEncoder(layer, DEPTH), torch.randn(1, LENGTH, width)),
        "timm ViT": (timm.create_model("vit_tiny_patch16_224", **vit), torch.randn(1, 3, 256, 256)),
        "x-transformers": (
            TransformerWrapper(num_tokens=1000, max_seq_len=LENGTH, attn_layers=layers),
            torch.randint(1000, (1, LENGTH)),
        ),
    }


@torch.no_grad()
def main(seconds: float) -> None:
    print(f"\n## Capturing attention\n\n{machine()}\n")
    titles = ("", "capture, ms", "rounds", "capture / eager with weights", "capture / ordinary call")
    print(row(*titles), row(*["---"] * len(titles)), sep="\n")
    for width in SIZES:
        for name, (fused, eager, inputs) in hugging_face(width).items():
            own = eager(**inputs, output_attentions=True).attentions
            for one, weights in zip(capture(fused, **inputs).attentions, own, strict=True):
                torch.testing.assert_close(one.weights, weights, rtol=0.0, atol=1e-5)
            show(
                f"{name}, width {width}",
                {
                    "capture": lambda m=fused, i=inputs: capture(m, **i),
                    "eager": lambda m=eager, i=inputs: m(**i, output_attentions=True),
                    "call": lambda m=fused, i=inputs: m(**i),
                },
                seconds,
            )
        for name, (model, given) in others(width).items():
            model.eval()
            calls = {"capture": lambda m=model, x=given: capture(m, x), "call": lambda m=model, x=given: m(x)}
            show(f"{name}, width {width}", calls, seconds)


def show(name: str, calls: dict[str, Call], seconds: float) -> None:
    """Print how many times as long capturing takes."""
    times = take_turns(calls, seconds)
    ours = times["capture"]
    eager = ratio(ours, times["eager"]) if "eager" in times else ""
    milliseconds = f"{1000 * sorted(ours)[len(ours) // 2]:.1f}"
    print(row(name, milliseconds, len(ours), eager, ratio(ours, times["call"])), flush=True)
