"""All attention maps of an encoder: six layers of eight heads, width 256, one sequence.

Hugging Face's BERT gives them with `output_attentions=True`, torch.nn's layers with `need_weights=True` for
every head. All have the same weights, and their maps are compared first. Ours overwrites the maps of the
previous turn, as an application that captures repeatedly would; it is also measured with one layer and none.
"""

import statistics
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from bench.rounds import Contender, machine, ratio, row, take_turns
from bench.vits import named
from limelight.bridge import to_torch
from limelight.nn import BlockConfig, Encoder
from limelight.view import watch

DEPTH, WIDTH, HEADS, HIDDEN = 6, 256, 8, 1024
LENGTHS = (64, 256, 1024)


def bert(ours: Encoder) -> BertModel:
    config = BertConfig(
        vocab_size=2,
        hidden_size=WIDTH,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        hidden_act="relu",
        max_position_embeddings=max(LENGTHS),
        layer_norm_eps=1e-5,
        attn_implementation="eager",  # the only implementation that returns weights
    )
    theirs = BertModel(config, add_pooling_layer=False).eval()
    weights = named("embeddings", theirs.embeddings)
    for number, block in enumerate(ours.blocks):
        parts = {
            "attention.self.query": block.self_attention.query,
            "attention.self.key": block.self_attention.key,
            "attention.self.value": block.self_attention.value,
            "attention.output.dense": block.self_attention.output,
            "attention.output.LayerNorm": block.self_residual.norm,
            "intermediate.dense": block.feedforward.expand,
            "output.dense": block.feedforward.contract,
            "output.LayerNorm": block.feedforward_residual.norm,
        }
        for name, part in parts.items():
            weights |= named(f"encoder.layer.{number}.{name}", part)
    theirs.load_state_dict(weights, strict=False)
    return theirs


class Torch:
    """The layers of torch.nn with their weights; they have no option for it, so forward is repeated here."""

    def __init__(self, ours: Encoder) -> None:
        self.layers = to_torch(ours).layers

    def maps(self, x: Tensor) -> list[Tensor]:
        found = []
        for layer in self.layers:
            mixed, weights = layer.self_attn(x, x, x, need_weights=True, average_attn_weights=False)
            x = layer.norm1(x + mixed)
            x = layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))
            found.append(weights)
        return found


def our_maps(ours: Encoder, x: Tensor, *names: str) -> Callable[[], list[Tensor]]:
    before: dict[str, list[Tensor]] = {}

    def maps() -> list[Tensor]:
        with watch(ours, *names, into=before) as seen:
            ours(x)
        before.update(seen)
        return [passes[0] for passes in seen.values()]

    return maps


def contenders(length: int) -> dict[str, Contender]:
    ours = Encoder(DEPTH, BlockConfig(WIDTH, HEADS, HIDDEN)).eval()
    hugging_face, torch_nn = bert(ours), Torch(ours)
    given = torch.randn(1, length, WIDTH)

    def theirs() -> tuple[Tensor, ...]:
        return hugging_face(inputs_embeds=given, output_attentions=True).attentions

    x = hugging_face.embeddings(inputs_embeds=given).detach()
    runs: dict[str, Contender] = {
        "limelight": our_maps(ours, x),
        "Hugging Face": theirs,
        "torch.nn": lambda: torch_nn.maps(x),
        "limelight, one layer": our_maps(ours, x, "blocks.3"),
        "limelight, none": lambda: ours(x),
    }
    for maps in (theirs(), torch_nn.maps(x)):
        for got, expected in zip(maps, our_maps(ours, x)(), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)
    return runs


@torch.inference_mode()
def main(seconds: float) -> None:
    torch.manual_seed(1)
    print(f"\n## All attention maps of {DEPTH} layers, {HEADS} heads, width {WIDTH}\n\n{machine()}\n")
    header_printed = False
    for length in LENGTHS:
        times = take_turns(contenders(length), 2 * seconds)
        ours = times.pop("limelight")
        if not header_printed:
            print(row("T", "ours, ms", "rounds", *times), row(*["---"] * (3 + len(times))), sep="\n")
            header_printed = True
        ratios = [ratio(theirs, ours) for theirs in times.values()]
        print(row(length, f"{statistics.median(ours) * 1e3:.1f}", len(ours), *ratios), flush=True)
