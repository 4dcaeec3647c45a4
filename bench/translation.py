"""Training a translation model: tokens per second of ours and of models that compute padding.

A step is forward, loss, backward, clipping and Adam. Ours packs real tokens; the others get padded batches,
F.cross_entropy that ignores padding, clip_grad_norm_ and a fused Adam. All start with the same weights, and
their losses are compared first. Tokens are the real tokens of source and target.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.padded import JOEY, PAD, Joey, Marian, Torch, book
from bench.rounds import Contender, machine, ratio, row, take_turns
from limelight.data.batching import Batch, Examples, even_batches
from limelight.data.ragged import Ragged
from limelight.models.sizes import Sizes
from limelight.models.transformer import Transformer, TransformerConfig
from limelight.nn import cross_entropy, padding_mask
from limelight.training.optimise import Optimiser

CLIP, RATE = 1.0, 1e-4
COURSE = TransformerConfig(width=256, hidden=64, heads=4, encoder_depth=2, decoder_depth=2, dropout=0.1)
CAPTIONS = TransformerConfig(width=256, hidden=1024, heads=8, encoder_depth=3, decoder_depth=3, dropout=0.1)
POOL = 50  # batches of captions, two of which are used


@dataclass(frozen=True)
class Workload:
    name: str
    config: TransformerConfig
    vocabulary: int
    batches: list[Batch]

    @property
    def tokens(self) -> int:
        return sum(batch.tokens + predictions(batch) for batch in self.batches)

    @property
    def padding(self) -> float:
        return 1 - self.tokens / sum(map(padded_size, self.batches))


def examples(lengths: Tensor, vocabulary: int) -> Examples:
    """(n, 2) -> random sentences; targets begin with a begin mark."""
    sides = []
    for column in (lengths[:, 0], lengths[:, 1] + 1):
        values = torch.randint(PAD + 1, vocabulary, (int(column.sum()),))
        sides.append(Ragged.from_rows(values.split(column.tolist())))
    return Examples(*sides)


def course(vocabulary: int) -> Workload:
    """Short sentences; a few have the full length of ten tokens, to which all are padded."""
    lengths = (2 + torch.empty(256, 2).geometric_(0.37)).clamp(max=10).long()
    lengths[::128] = 10
    data = examples(lengths, vocabulary)
    batches = [data.batch(index) for index in torch.arange(256).split(128)]
    return Workload(f"course, {vocabulary:,} words", COURSE, vocabulary, batches)


def captions() -> list[Workload]:
    """Lengths as in Multi30k, in random batches and in batches of similar length."""
    count = POOL * 64
    source = torch.randn(count) * 5
    target = 0.8 * source + 0.6 * torch.randn(count) * 5
    lengths = (14 + torch.stack((source, target), 1)).round().clamp(3, 40).long()
    data = examples(lengths, 8000)
    orders = {
        "captions, random batches": list(torch.arange(count).split(64)),
        "captions, by length": even_batches(lengths.sum(1), 64),
    }
    workloads = []
    for name, order in orders.items():
        # The batches at the first and third quartile of the padded size.
        batches = sorted((data.batch(index) for index in order), key=padded_size)
        workloads.append(Workload(name, CAPTIONS, 8000, [batches[POOL // 4], batches[3 * POOL // 4]]))
    return workloads


def predictions(batch: Batch) -> int:
    return batch.target_tokens - len(batch)


def padded_size(batch: Batch) -> int:
    """Tokens of source and target, including padding."""
    return batch.inputs.numel() + batch.targets[:, 1:].numel()


def packed_loss(model: nn.Module, batch: Batch) -> Tensor:
    """As in the translation task."""
    next_BT = batch.targets[:, 1:]
    lengths = None if batch.target_lengths is None else batch.target_lengths - 1
    x_ND = model(batch.inputs, batch.targets[:, :-1], batch.lengths, lengths, logits=False)
    if lengths is None:
        next_N = next_BT.flatten()
    else:
        next_N = next_BT[padding_mask(lengths, next_BT.shape[1]).squeeze(1)]
    return cross_entropy(x_ND, model.output, next_N)[0] / predictions(batch)


def padded_loss(model: nn.Module, batch: Batch) -> Tensor:
    logits_BTV = model(batch.inputs, batch.lengths, batch.targets[:, :-1])
    return F.cross_entropy(logits_BTV.flatten(0, 1), batch.targets[:, 1:].flatten(), ignore_index=PAD)


Step = Callable[[Batch, float], Tensor]


def our_step(model: nn.Module) -> Step:
    optimiser = Optimiser(model, decay=0.0)

    def step(batch: Batch, rate: float) -> Tensor:
        optimiser.zero_grad()
        loss = packed_loss(model, batch)
        loss.backward()
        optimiser.clip(CLIP)
        optimiser.step(rate)
        return loss.detach()

    return step


def their_step(model: nn.Module) -> Step:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.Adam(parameters, fused=True)

    def step(batch: Batch, rate: float) -> Tensor:
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        loss = padded_loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        adam.step()
        return loss.detach()

    return step


def bare_products(config: TransformerConfig, vocabulary: int, batch: Batch) -> Contender:
    """Only the matrix products of real tokens and of padded attention: a lower bound of the time."""
    width, enc, dec = config.width, config.encoder_depth, config.decoder_depth
    source, target = batch.tokens, predictions(batch)
    layers = [  # rows, inputs, outputs, number of layers
        (source, width, width, 4 * enc + 2 * dec),  # the decoder has keys and values of the source, too
        (target, width, width, 6 * dec),
        (source, width, config.hidden, 2 * enc),  # expand and contract
        (target, width, config.hidden, 2 * dec),
        (target, width, vocabulary, 1),
    ]
    linear = [(torch.randn(n, i), torch.randn(o, i), torch.randn(n, o), many) for n, i, o, many in layers]
    s, t = batch.inputs.shape[1], batch.targets.shape[1] - 1
    one = (len(batch) * config.heads, width // config.heads)
    attention = [
        (torch.randn(one[0], a, one[1]), torch.randn(one[0], b, one[1]), many)
        for a, b, many in ((s, s, enc), (t, t, dec), (t, s, dec))
    ]

    def run() -> None:
        for x, weight, y, many in linear:
            for _ in range(many):  # forward, gradients of input and weight
                x @ weight.T
                y @ weight
                y.T @ x
        for q, k, many in attention:
            for _ in range(many):
                torch.bmm(q, k.mT)
                scores = torch.bmm(q, k.mT)  # and gradients of weights
                for _ in range(2):  # output, gradients of queries; gradients of keys and values
                    torch.bmm(scores, k)
                    torch.bmm(scores.mT, q)

    return run


def models(workload: Workload) -> tuple[Transformer, dict[str, nn.Module]]:
    config = workload.config
    ours = config.build(Sizes(outputs=workload.vocabulary, vocabulary=workload.vocabulary, longest=64))
    nn.init.zeros_(ours.output.bias)  # not every model has one
    theirs = {
        "book (d2l)": book(config, ours),
        "nn.Transformer": Torch(config, ours),
        "Hugging Face Marian": Marian(config, ours),
    }
    return ours, theirs | ({"JoeyNMT": Joey(config, ours)} if JOEY else {})


def check(ours: Transformer, theirs: dict[str, nn.Module], batch: Batch) -> None:
    """The same weights give the same loss, padded or packed."""
    with torch.no_grad():
        loss = packed_loss(ours.eval(), batch)
        for name, model in theirs.items():
            other = padded_loss(model.eval(), batch)
            torch.testing.assert_close(other, loss, rtol=1e-5, atol=1e-5, msg=f"{name}: {other}, not {loss}")


def check_learning(name: str, step: Step, batch: Batch) -> None:
    losses = [float(step(batch, 1e-3)) for _ in range(5)]
    if not all(map(math.isfinite, losses)) or losses[-1] >= losses[0]:
        raise RuntimeError(f"{name} does not learn: {losses}")


def contenders(workload: Workload) -> tuple[str, dict[str, Contender]]:
    """The number of parameters of each model, and its turn: one step on every batch."""
    ours, theirs = models(workload)
    few = workload.batches[0].split(8)[0]
    check(ours, theirs, few)
    steps = {"limelight": our_step(ours.train())}
    steps |= {name: their_step(model.train()) for name, model in theirs.items()}
    for name, step in steps.items():
        check_learning(name, step, few)

    def turn(step: Step) -> Contender:
        return lambda: [step(batch, RATE) for batch in workload.batches]

    runs: dict[str, Contender] = {name: turn(step) for name, step in steps.items()}
    products = [bare_products(workload.config, workload.vocabulary, batch) for batch in workload.batches]
    runs["bare matrix products"] = lambda: [run() for run in products]
    sizes = {
        name: sum(p.numel() for p in model.parameters() if p.requires_grad)
        for name, model in ({"limelight": ours} | theirs).items()
    }
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items()), runs


def main(seconds: float) -> None:
    torch.manual_seed(1)
    print(f"\n## Training a translation model\n\n{machine()}\n")
    sizes: dict[str, str] = {}
    for workload in [course(200), course(8000), *captions()]:
        sizes[workload.name], runs = contenders(workload)
        times = take_turns(runs, seconds)
        ours = times.pop("limelight")
        if len(sizes) == 1:
            titles = ("", "padding", "ours, tokens/s", "rounds", *times)
            print(row(*titles), row(*["---"] * len(titles)), sep="\n")
        speed = f"{workload.tokens / statistics.median(ours):,.0f}"
        ratios = [ratio(theirs, ours) for theirs in times.values()]
        print(row(workload.name, f"{workload.padding:.0%}", speed, len(ours), *ratios), flush=True)
    print("\nParameters:\n")
    for name, counts in sizes.items():
        print(f"- {name}: {counts}")
