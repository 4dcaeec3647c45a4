"""Decoder-only models of the same size: ours, Hugging Face's GPT-2 and nanoGPT, with the same weights.

nanoGPT is not in the Python registry: the environment variable NANOGPT is the folder of a checkout; without
it, that model is left out.
"""

import importlib.util
import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from limelight.models.decoder_only import DecoderOnlyConfig, LanguageModel

CHECKOUT = os.environ.get("NANOGPT")

# Our name of a part of a block -> GPT-2's. Queries, keys and values are one matrix there.
PARTS = {
    "self_residual.norm": "ln_1",
    "self_attention.output": "attn.c_proj",
    "feedforward_residual.norm": "ln_2",
    "feedforward.expand": "mlp.c_fc",
    "feedforward.contract": "mlp.c_proj",
}


def gpt2_config(config: DecoderOnlyConfig, vocabulary: int, context: int) -> GPT2Config:
    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=context,
        n_embd=config.width,
        n_layer=config.depth,
        n_head=config.heads,
        n_inner=config.hidden,
        activation_function={"gelu": "gelu", "gelu-tanh": "gelu_pytorch_tanh"}[config.activation],
        resid_pdrop=config.dropout,
        embd_pdrop=config.dropout,
        attn_pdrop=config.dropout,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )


@torch.no_grad()
def hugging_face(config: DecoderOnlyConfig, ours: LanguageModel) -> GPT2LMHeadModel:
    """Their model with our weights; it stores matrices transposed, and has the GELU as one operation."""
    context = len(ours.get_parameter("positions.table"))
    theirs = GPT2LMHeadModel(gpt2_config(config, ours.embedding.num_embeddings, context))
    fill(theirs.transformer, ours, transposed=True)
    return theirs


class NanoGPT(nn.Module):
    """nanoGPT's model, with our weights unless `bias` is off, which is the default of its train.py."""

    def __init__(self, config: DecoderOnlyConfig, ours: LanguageModel, *, bias: bool = True) -> None:
        super().__init__()
        nano = _nanogpt()
        sizes = nano.GPTConfig(
            block_size=len(ours.get_parameter("positions.table")),
            vocab_size=ours.embedding.num_embeddings,
            n_layer=config.depth,
            n_head=config.heads,
            n_embd=config.width,
            dropout=config.dropout,
            bias=bias,
        )
        with redirect_stdout(StringIO()):
            self.model = nano.GPT(sizes)
        fill(self.model.transformer, ours, transposed=False)

    def optimiser(self, rate: float) -> torch.optim.Optimizer:
        """The one of its train.py."""
        with redirect_stdout(StringIO()):
            return self.model.configure_optimizers(0.1, rate, (0.9, 0.99), "cpu")


def _nanogpt() -> ModuleType:
    assert CHECKOUT is not None
    spec = importlib.util.spec_from_file_location("nanogpt_model", Path(CHECKOUT) / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def fill(theirs: nn.Module, ours: LanguageModel, *, transposed: bool) -> None:
    """Copy our parameters; biases are left out where the other model has none."""

    def copy(name: str, weight: Tensor, bias: Tensor | None = None) -> None:
        part = theirs.get_submodule(name)
        linear = part.weight.dim() == 2 and bias is not None
        part.weight.copy_(weight.T if transposed and linear else weight)
        if bias is not None and getattr(part, "bias", None) is not None:
            part.bias.copy_(bias)

    copy("wte", ours.embedding.weight)
    copy("wpe", ours.get_parameter("positions.table"))
    for number, block in enumerate(ours.decoder.blocks):
        attention = block.get_submodule("self_attention")
        three = [attention.get_submodule(name) for name in ("query", "key", "value")]
        weights = [torch.cat([part.get_parameter(name) for part in three]) for name in ("weight", "bias")]
        copy(f"h.{number}.attn.c_attn", *weights)
        for mine, name in PARTS.items():
            part = block.get_submodule(mine)
            copy(f"h.{number}.{name}", part.get_parameter("weight"), part.get_parameter("bias"))
    norm = ours.decoder.norm
    copy("ln_f", norm.get_parameter("weight"), norm.get_parameter("bias"))
