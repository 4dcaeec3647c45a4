"""Writing translations (W4): sentences a second, greedily and with four beams, one at a time and 64 together.

All contenders have the same weights and write exactly twenty tokens a sentence: the weights themselves forbid
the end mark, so that nobody pays for forbidding it. What they write is compared before they may run.
"""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import torch
from torch import Tensor, nn
from transformers import GenerationConfig, MarianMTModel

from bench.ctranslate import translator, word
from bench.padded import BEGIN, END, PAD, marian
from bench.rounds import Contender, machine, ratio, row, take_turns
from limelight.data.ragged import Ragged
from limelight.models.sizes import Sizes
from limelight.models.transformer import Transformer, TransformerConfig
from limelight.tasks.decode import Search, Sources, Writer, decode

CONFIG = TransformerConfig(width=256, hidden=1024, heads=8, encoder_depth=3, decoder_depth=3, tied="all")
VOCABULARY, NEW = 8000, 20

Write = Callable[[list[Tensor], int], list[list[int]]]


def model() -> Transformer:
    """With weights that write all sorts of tokens, and never the end mark."""
    ours = CONFIG.build(Sizes(outputs=VOCABULARY, vocabulary=VOCABULARY, longest=64, shared=True)).eval()
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        last = ours.decoder.blocks[-1].feedforward_residual.norm
        # Only the end mark has the first column, where all that comes out is the same number.
        last.weight[0], last.bias[0] = 0, 2
        ours.target_embedding.weight[:, 0] = 0
        ours.target_embedding.weight[END, 0] = -1e4
    return ours


class Uncached:
    """A writer that computes everything again for each token: what the others must agree with."""

    longest = None

    @dataclass
    class State:
        source: Tensor
        lengths: Tensor | None
        written: Tensor

        def reorder(self, index: Tensor, *, sources: bool = True) -> None:
            self.written = self.written[index]
            if sources:
                self.source = self.source[index]
                self.lengths = None if self.lengths is None else self.lengths[index]

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> State:
        del capacity
        return self.State(source, lengths, torch.empty(len(source), 0, dtype=torch.long))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        state.written = torch.cat((state.written, tokens.unsqueeze(1)), 1)
        logits_NV = self.model(state.source, state.written, state.lengths)
        return logits_NV.unflatten(0, state.written.shape)[:, -1]


def ours(writer: Writer) -> Write:
    def write(rows: list[Tensor], beam: int) -> list[list[int]]:
        tokens, lengths = Ragged.of(rows).pad(torch.arange(len(rows)))
        sources = Sources(tokens, lengths, [NEW + 1] * len(rows), BEGIN, END)
        return [found[0].tokens for found in decode(writer, sources, Search(beam=beam))]

    return write
