"""Generating translations: sentences per second, greedy and with four beams, in batches of 1 and 64.

All contenders have the same weights and generate exactly twenty tokens per sentence: the weights make the end
mark impossible, so that no contender needs time to forbid it. The generated tokens are compared first.
"""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, product
from operator import eq
from pathlib import Path

import ctranslate2
import torch
from torch import Tensor
from transformers import GenerationConfig, MarianMTModel

from bench.ctranslate import translator, word
from bench.padded import BEGIN, END, PAD, marian
from bench.rounds import Contender, machine, ratio, row, take_turns
from limelight.data.ragged import Ragged
from limelight.models.sizes import Sizes
from limelight.models.transformer import Transformer, TransformerConfig
from limelight.tasks.translate.search import Generator, Search, Sources, decode

CONFIG = TransformerConfig(width=256, hidden=1024, heads=8, encoder_depth=3, decoder_depth=3, tied="all")
VOCABULARY, NEW = 8000, 20
WAYS = {"greedy": 1, "beam 4": 4}
COMPARED, ALONE = 50, 20  # sentences that are compared, in one batch and one at a time
TURN = 4  # sentences per turn with batch 1
UNCACHED, INT8 = "uncached", "CTranslate2 int8"

Write = Callable[[], list[list[int]]]
Prepare = Callable[[list[Tensor], int], Write]  # sources and the number of beams


@torch.no_grad()
def model() -> Transformer:
    """Untrained weights that generate many different tokens, and never the end mark."""
    sizes = Sizes(outputs=VOCABULARY, vocabulary=VOCABULARY, longest=64, shared=True)
    ours = CONFIG.build(sizes).eval()
    for name, parameter in ours.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        elif name.startswith("decoder") and "feedforward" in name:
            parameter.mul_(4)  # otherwise each token is followed by itself
    memory, _ = ours.encode(torch.randint(VOCABULARY, (64, 14)))
    target_BTD = ours.target_embedding(torch.randint(VOCABULARY, (64, NEW))) * ours.scale
    last = ours.decoder.blocks[-1].feedforward_residual.norm
    # Subtract the mean of all outputs: otherwise all sentences are the same.
    last.bias.sub_(ours.decoder(ours.target_positions(target_BTD), memory).mean((0, 1)))
    # The first column is the same number in every output, and only the end mark has a weight for it.
    last.weight[0], last.bias[0] = 0, 2
    ours.target_embedding.weight[:, 0] = 0
    ours.target_embedding.weight[END, 0] = -1e4
    return ours


class Uncached:
    """The reference: generates without a cache, and computes everything again for each token."""

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


def padded(rows: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    return Ragged.from_rows(rows).pad(torch.arange(len(rows)), PAD)


def ours(generator: Generator) -> Prepare:
    def prepare(rows: list[Tensor], beam: int) -> Write:
        sources = Sources(*padded(rows), [NEW + 1] * len(rows), BEGIN, END)
        search = Search(beam=beam)
        return lambda: [found[0].tokens for found in decode(generator, sources, search)]

    return prepare


def hugging_face(theirs: MarianMTModel) -> Prepare:
    marks = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": BEGIN}

    def prepare(rows: list[Tensor], beam: int) -> Write:
        tokens, lengths = padded(rows)
        real = torch.ones_like(tokens)
        if lengths is not None:
            real = (torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)).long()
        way = GenerationConfig(num_beams=beam, max_new_tokens=NEW, do_sample=False, use_cache=True, **marks)
        return lambda: theirs.generate(tokens, attention_mask=real, generation_config=way)[:, 1:].tolist()

    return prepare


def ctranslate(theirs: ctranslate2.Translator) -> Prepare:
    tokens = {word(token): token for token in range(VOCABULARY)}

    def prepare(rows: list[Tensor], beam: int) -> Write:
        words = [[word(token) for token in row.tolist()] for row in rows]

        def write() -> list[list[int]]:
            found = theirs.translate_batch(words, beam_size=beam, max_decoding_length=NEW)
            return [[tokens[one] for one in result.hypotheses[0]] for result in found]

        return write

    return prepare


def contenders(folder: Path) -> dict[str, Prepare]:
    mine = model()
    return {
        "limelight": ours(mine.generator()),
        UNCACHED: ours(Uncached(mine)),
        "Hugging Face generate": hugging_face(marian(CONFIG, mine).eval()),
        "CTranslate2 float32": ctranslate(translator(CONFIG, mine, folder / "float32", "float32")),
        INT8: ctranslate(translator(CONFIG, mine, folder / "int8", "int8")),
    }


def agreement(prepare: Prepare, rows: list[Tensor], beam: int, reference: list[list[int]]) -> list[str]:
    """How many sentences equal the reference, in one batch and one at a time."""
    together = prepare(rows, beam)()
    alone = [prepare([one], beam)()[0] for one in rows[:ALONE]]
    if any(len(tokens) != NEW for tokens in together + alone):
        raise RuntimeError("an end mark was generated")
    same = [sum(map(eq, found, reference)) for found in (together, alone)]
    return [f"{same[0]}/{len(together)}", f"{same[1]}/{len(alone)}"]


def check(prepares: dict[str, Prepare], rows: list[Tensor]) -> None:
    """All but int8 must generate the tokens of the reference with greedy search. With beams only ours must,
    because the libraries score hypotheses differently."""
    titles = ("equal to the reference", *(f"{way}, {how}" for way in WAYS for how in ("batch", "alone")))
    print(row(*titles), row(*["---"] * len(titles)), sep="\n")
    reference = {beam: prepares[UNCACHED](rows, beam)() for beam in WAYS.values()}
    for name, prepare in prepares.items():
        if name == UNCACHED:
            continue
        cells = [agreement(prepare, rows, beam, found) for beam, found in reference.items()]
        print(row(name, *chain(*cells)), flush=True)
        bound = cells if name == "limelight" else [] if name == INT8 else cells[:1]
        if any(len(set(cell.split("/"))) > 1 for cell in chain(*bound)):
            raise RuntimeError(f"{name} generates other tokens than the uncached reference")


def turns(prepares: dict[str, Prepare], rows: list[Tensor], beam: int, batch: int) -> dict[str, Contender]:
    pieces = [rows[i : i + batch] for i in range(0, TURN if batch == 1 else batch, batch)]

    def turn(prepare: Prepare) -> Contender:
        writes = [prepare(piece, beam) for piece in pieces]
        return lambda: [write() for write in writes]

    # Without a cache, more than one sentence takes too long.
    return {name: turn(prepare) for name, prepare in prepares.items() if batch == 1 or name != UNCACHED}


def main(seconds: float) -> None:
    torch.manual_seed(1)
    print(f"\n## Generating translations of {NEW} tokens\n\n{machine()}\n")
    lengths = (14 + 3 * torch.randn(64)).round().clamp(5, 25).long()
    rows = [torch.randint(END + 1, VOCABULARY, (length,)) for length in lengths.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        prepares = contenders(Path(folder))
        check(prepares, rows[:COMPARED])
        names = [name for name in prepares if name != "limelight"]
        titles = ("", "ours, sentences/s", "rounds", *names)
        print("", row(*titles), row(*["---"] * len(titles)), sep="\n")
        for batch, (way, beam) in product((1, 64), WAYS.items()):
            times = take_turns(turns(prepares, rows, beam, batch), seconds)
            mine = times.pop("limelight")
            speed = f"{(TURN if batch == 1 else batch) / statistics.median(mine):.1f}"
            ratios = [ratio(times[name], mine) if name in times else "–" for name in names]
            print(row(f"{way}, batch {batch}", speed, len(mine), *ratios), flush=True)
