"""Language models: tokens per second of generation, and the time and memory of a training step.

Generation is for one sequence, greedy and sampled, compared with Hugging Face's `generate`. All have the
same weights, in the layout of GPT-2, and must generate the same tokens: sampling draws the same random
numbers. Each model is first trained on the manual of Python for a short time. With random weights, the
probabilities of tokens are so close that guesses with weights of eight bits are often wrong.

A training step is forward, loss, backward, clipping and AdamW (for nanoGPT the one of its train.py, for
Hugging Face a fused one), without `torch.compile`. The losses are compared first. The C library keeps freed
memory in each process, as in `limelight train`. Peak memory is measured in a new process per model: how much
its resident memory grows while the model is built and takes a few steps.
"""

import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, GPT2LMHeadModel

from bench.gpts import CHECKOUT, NanoGPT, hugging_face
from bench.rounds import Contender, machine, ratio, row, take_turns
from limelight.data.text.running_text import RunningText, TextData
from limelight.models.decoder_only import DecoderOnlyConfig, LanguageModel
from limelight.models.sizes import Sizes
from limelight.nn import cross_entropy
from limelight.tasks.language.generation import LanguageOptions, next_tokens
from limelight.training.memory import keep_memory
from limelight.training.optimise import Optimiser

PROMPT, NEW = 16, 112
CLIP, RATE, DECAY = 1.0, 1e-4, 0.1


def gpt2(width: int, depth: int, *, heads: int, activation: str, dropout: float = 0.0) -> DecoderOnlyConfig:
    return DecoderOnlyConfig(
        width=width,
        depth=depth,
        heads=heads,
        hidden=4 * width,
        activation=activation,
        positions="learned",
        norm="pre",
        dropout=dropout,
    )


def build(config: DecoderOnlyConfig, vocabulary: int, context: int) -> LanguageModel:
    return config.build(Sizes(outputs=vocabulary, vocabulary=vocabulary, longest=context, shared=True))


# Generation

# Width, layers, heads, vocabulary and its maximum size
GENERATION = [
    (128, 4, 4, "characters", 4000),
    (256, 4, 8, "characters", 4000),
    (384, 6, 6, "characters", 4000),
    (128, 4, 4, "subwords", 8000),
    (384, 6, 6, "subwords", 8000),
]
WAYS: dict[str, dict[str, float | int]] = {"greedy": {}, "sampled": {"temperature": 0.8, "top_k": 40}}
STEPS, BATCH = 150, 8  # of the training before


def ours(model: LanguageModel, prompt_1T: Tensor, options: LanguageOptions) -> Callable[[], list[int]]:
    prompt, context = prompt_1T[0].tolist(), PROMPT + NEW
    return lambda: [token for token, _ in next_tokens(model, prompt, context, options)]


def theirs(model: GPT2LMHeadModel, prompt_1T: Tensor, options: LanguageOptions) -> Callable[[], list[int]]:
    choice = {"do_sample": False}
    if options.temperature:
        choice = {"do_sample": True, "temperature": options.temperature, "top_k": options.top_k, "top_p": 1.0}
    config = GenerationConfig(max_new_tokens=NEW, use_cache=True, pad_token_id=0, **choice)
    real = torch.ones_like(prompt_1T)

    def generate() -> list[int]:
        torch.manual_seed(options.seed)
        return model.generate(prompt_1T, attention_mask=real, generation_config=config)[0, PROMPT:].tolist()

    return generate


def trained(config: DecoderOnlyConfig, data: TextData) -> LanguageModel:
    """A model that has learned the most frequent words of the text."""
    torch.manual_seed(1)
    model = build(config, data.reader.size, PROMPT + NEW)
    optimiser, windows = Optimiser(model, decay=DECAY, muon=True), data.examples("train")
    for step in range(STEPS):
        batch = windows.batch(torch.randint(len(windows), (BATCH,)))
        optimiser.zero_grad()
        our_loss(model, torch.cat((batch.inputs, batch.targets[:, -1:]), 1)).backward()
        optimiser.clip(CLIP)
        optimiser.step(3e-3 * (1 - step / STEPS))
    return model.eval()


def generation(seconds: float) -> None:
    printed = False
    for width, depth, heads, vocabulary, size in GENERATION:
        config = gpt2(width, depth, heads=heads, activation="gelu-tanh")
        data = RunningText(vocabulary=vocabulary, vocabulary_size=size, context=PROMPT + NEW).load(1)
        model = trained(config, data)
        other = hugging_face(config, model).eval()
        prompt_1T = data.batch("validation", torch.tensor([3])).inputs[:, :PROMPT]
        for way, choice in WAYS.items():
            options = LanguageOptions(length=NEW, **choice)
            runs: dict[str, Contender] = {
                "ours": ours(model, prompt_1T, options),
                "Hugging Face generate": theirs(other, prompt_1T, options),
            }
            mine, expected = (run() for run in runs.values())
            if mine != expected:
                raise RuntimeError(f"{way}: {mine} is not {expected}")
            times = take_turns(runs, seconds)
            own = times.pop("ours")
            if not printed:
                titles = ("", "ours, tokens/s", "rounds", *times)
                print(row(*titles), row(*["---"] * len(titles)), sep="\n")
                printed = True
            name = f"width {width}, {depth} layers, vocabulary {data.reader.size:,}, {way}"
            speed = f"{NEW / statistics.median(own):,.0f}"
            print(row(name, speed, len(own), *(ratio(time, own) for time in times.values())), flush=True)


# Training


@dataclass(frozen=True)
class Workload:
    config: DecoderOnlyConfig
    vocabulary: int
    context: int
    batch: int

    @property
    def name(self) -> str:
        config = self.config
        sizes = f"{config.depth} layers, width {config.width}, context {self.context}, batch {self.batch}"
        return f"{sizes}, dropout {config.dropout:g}"

    def tokens(self) -> Tensor:
        """(B, T + 1)"""
        return torch.randint(self.vocabulary, (self.batch, self.context + 1))


WORKLOADS = [
    Workload(gpt2(128, 4, heads=4, activation="gelu"), 65, 64, 12),
    Workload(gpt2(384, 6, heads=6, activation="gelu"), 65, 256, 16),
    Workload(gpt2(384, 6, heads=6, activation="gelu", dropout=0.2), 65, 256, 16),
]


Step = Callable[[Tensor], Tensor]  # (B, T + 1) -> the loss


def our_loss(model: nn.Module, tokens_BT: Tensor) -> Tensor:
    x_ND = model(tokens_BT[:, :-1], logits=False).flatten(0, 1)
    return cross_entropy(x_ND, model.output, tokens_BT[:, 1:].flatten())[0] / len(x_ND)


def hugging_face_loss(model: nn.Module, tokens_BT: Tensor) -> Tensor:
    logits_BTV = model(input_ids=tokens_BT[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(logits_BTV.flatten(0, 1), tokens_BT[:, 1:].flatten())


def nanogpt_loss(model: nn.Module, tokens_BT: Tensor) -> Tensor:
    return model.model(tokens_BT[:, :-1].contiguous(), tokens_BT[:, 1:].contiguous())[1]


def our_step(model: nn.Module) -> Step:
    optimiser = Optimiser(model, decay=DECAY)

    def step(tokens_BT: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = our_loss(model, tokens_BT)
        loss.backward()
        optimiser.clip(CLIP)
        optimiser.step(RATE)
        return loss.detach()

    return step


def their_step(model: nn.Module, loss_of: Callable[[nn.Module, Tensor], Tensor]) -> Step:
    if isinstance(model, NanoGPT):
        optimiser = model.optimiser(RATE)
    else:
        optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def step(tokens_BT: Tensor) -> Tensor:
        loss = loss_of(model, tokens_BT)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    return step


NO_BIASES = "nanoGPT, no biases"  # the default of its train.py
NAMES = ("limelight", "Hugging Face", *(["nanoGPT", NO_BIASES] if CHECKOUT else []))


def contender(name: str, workload: Workload) -> tuple[Step, Tensor]:
    """The training step of a model, and its loss before the first, in evaluation."""
    torch.manual_seed(1)
    config = workload.config
    mine = build(config, workload.vocabulary, workload.context)
    tokens_BT = workload.tokens()[:2]
    if name == "limelight":
        model, loss_of = mine, our_loss
    elif name == "Hugging Face":
        model, loss_of = hugging_face(config, mine), hugging_face_loss
    else:
        model, loss_of = NanoGPT(config, mine, bias=name != NO_BIASES), nanogpt_loss
    with torch.no_grad():
        loss = loss_of(model.eval(), tokens_BT)
    model.train()
    return (our_step(model) if name == "limelight" else their_step(model, loss_of)), loss


def memory(name: str, number: int) -> float:
    """Megabytes by which the resident memory of a new process grows at most."""
    imports = "import bench.torchvision_operators; from bench.language import peak"
    code = f"{imports}; peak({name!r}, {number})"
    root = Path(__file__).parent.parent
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return float(found.stdout.split()[-1])


def peak(name: str, number: int) -> None:
    """Runs in a process of its own: takes a few steps, and prints the megabytes that they need."""
    keep_memory()
    before = _status("VmRSS")
    step, _ = contender(name, WORKLOADS[number])
    tokens_BT = WORKLOADS[number].tokens()
    for _ in range(4):
        step(tokens_BT)
    print(_status("VmHWM") - before)


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith(key))


def training(seconds: float) -> None:
    keep_memory()
    titles = ("", "ours, steps/s", "rounds", *NAMES[1:])
    print(row(*titles), row(*["---"] * len(titles)), sep="\n")
    for workload in WORKLOADS:
        made = {name: contender(name, workload) for name in NAMES}
        for name, (_, loss) in made.items():
            if name == NO_BIASES:
                continue
            torch.testing.assert_close(
                loss, made["limelight"][1], rtol=1e-4, atol=1e-4, msg=f"{name}: {loss}"
            )
        tokens_BT = workload.tokens()
        runs: dict[str, Contender] = {name: partial(step, tokens_BT) for name, (step, _) in made.items()}
        times = take_turns(runs, seconds)
        own = times.pop("limelight")
        ratios = [ratio(time, own) for time in times.values()]
        print(row(workload.name, f"{1 / statistics.median(own):.2f}", len(own), *ratios), flush=True)
    print("", row("peak memory, MB", *NAMES), row(*["---"] * (1 + len(NAMES))), sep="\n")
    for number, workload in enumerate(WORKLOADS):
        print(row(workload.name, *(f"{memory(name, number):.0f}" for name in NAMES)), flush=True)


def main(seconds: float) -> None:
    torch.manual_seed(1)
    print(f"\n## Language models\n\n{machine()}\n\nGenerating {NEW} tokens after {PROMPT}:\n")
    generation(seconds)
    print("\nTraining:\n")
    training(seconds)
