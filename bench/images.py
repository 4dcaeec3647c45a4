"""A Vision Transformer for CIFAR-10: images per second in training and inference; augmentation.

A training step is forward, loss, backward and AdamW (torch's fused AdamW for the others), without dropout.
Ours computes its last block only for the class token. Models with the same weights must have the same
outputs. Inference uses the default memory allocator. For training, the C library keeps freed memory, as in
`limelight train`; all models are faster with it.
"""

import statistics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.rounds import Contender, machine, ratio, row, take_turns
from bench.vits import CONFIG, SIZES, vits
from limelight.data.images.augment import AugmentConfig, augment
from limelight.training.memory import keep_memory
from limelight.training.optimise import Optimiser

BATCH, RATE, DECAY = 128, 1e-4, 0.01
OTHER = "vit-pytorch"  # the same sizes, but another architecture


def training_step(model: nn.Module, images: Tensor, labels: Tensor, *, ours: bool) -> Contender:
    optimiser = (
        Optimiser(model, decay=DECAY)
        if ours
        else torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    )

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimiser.step(RATE) if isinstance(optimiser, Optimiser) else optimiser.step()

    return step


def inference(model: nn.Module, images: Tensor) -> Contender:
    @torch.inference_mode()
    def run() -> Tensor:
        return model(images)

    return run


def bare_products(*, training: bool) -> Contender:
    """Only the necessary matrix products (in the last block, for the class token): a lower bound."""
    tokens = (32 // CONFIG.patch) ** 2 + 1
    width, hidden, heads = CONFIG.width, CONFIG.hidden, CONFIG.heads
    products: list[tuple[Tensor, Tensor]] = []

    def add(rows: int, inner: int, columns: int, batch: int = 1) -> None:
        sides = [(rows, inner, columns)]
        if training:  # gradients of input and weight
            sides += [(rows, columns, inner), (inner, rows, columns)]
        for one, two, three in sides:
            products.append((torch.randn(batch, one, two), torch.randn(batch, two, three)))

    add(BATCH * (tokens - 1), 3 * CONFIG.patch**2, width)
    for number in range(CONFIG.depth):
        queries = 1 if number == CONFIG.depth - 1 else tokens
        add(BATCH * tokens, width, 2 * width)  # keys and values
        for inner, columns in ((width, width), (width, width), (width, hidden), (hidden, width)):
            add(BATCH * queries, inner, columns)
        add(queries, width // heads, tokens, BATCH * heads)
        add(queries, tokens, width // heads, BATCH * heads)

    @torch.no_grad()
    def run() -> None:
        for left, right in products:
            torch.bmm(left, right)

    return run


def speed(name: str, runs: dict[str, Contender], seconds: float) -> None:
    times = take_turns(runs, 6 * seconds)
    ours = times.pop("limelight")
    print(row(name, "images/s", "time divided by ours"), row(*["---"] * 3), sep="\n")
    print(row("limelight", f"{BATCH / statistics.median(ours):.0f}", f"{len(ours)} rounds"))
    for other, theirs in times.items():
        print(row(other, f"{BATCH / statistics.median(theirs):.0f}", ratio(theirs, ours)), flush=True)
    print()


def one_by_one(pixels: Tensor, config: AugmentConfig) -> Tensor:
    """Like a data set with a transform: each image on its own, then stacked."""
    images = []
    for image in pixels:
        padded = F.pad(image, (config.crop,) * 4)
        down, right = torch.randint(2 * config.crop + 1, (2,)).tolist()
        window = padded[:, down : down + 32, right : right + 32]
        images.append(window.flip(-1) if torch.rand(()) < 0.5 else window)
    return torch.stack(images)


def augmentation(seconds: float) -> None:
    config = AugmentConfig(crop=4, flip=True)
    pixels = torch.randint(256, (BATCH, *SIZES.image), dtype=torch.uint8)
    times = take_turns(
        {"a batch": lambda: augment(pixels, config), "one by one": lambda: one_by_one(pixels, config)},
        seconds,
    )
    ours = times.pop("a batch")
    print(row(f"crop and flip of {BATCH}", "ms", "divided by ours"), row(*["---"] * 3), sep="\n")
    print(row("the batch at once", f"{statistics.median(ours) * 1e3:.2f}", f"{len(ours)} rounds"))
    theirs = times["one by one"]
    print(row("image by image", f"{statistics.median(theirs) * 1e3:.2f}", ratio(theirs, ours)))


def main(seconds: float) -> None:
    torch.manual_seed(1)
    print(f"\n## A Vision Transformer of {CONFIG.depth} blocks, width {CONFIG.width}\n\n{machine()}\n")
    images, labels = torch.randn(BATCH, *SIZES.image), torch.randint(SIZES.outputs, (BATCH,))
    models = vits(alike=True)
    with torch.no_grad():
        expected = models["limelight"].eval()(images)
        for name, model in models.items():
            if name != OTHER:
                torch.testing.assert_close(
                    model.eval()(images), expected, rtol=1e-4, atol=1e-5, msg=f"{name} differs"
                )
    runs = {name: inference(model, images) for name, model in models.items()}
    speed("inference", {**runs, "bare matrix products": bare_products(training=False)}, seconds)
    keep_memory()
    runs = {
        name: training_step(model.train(), images, labels, ours=name == "limelight")
        for name, model in models.items()
    }
    speed("training", {**runs, "bare matrix products": bare_products(training=True)}, seconds)
    augmentation(seconds)
