"""Promises about images: the order of the patches, positions, the class token."""

import re
from functools import partial

import torch
from torch import Tensor, nn

from limelight.check.harness.crash import is_refusal
from limelight.check.harness.inputs import Case
from limelight.check.harness.sizes import Sizes
from limelight.check.harness.subject import Subject
from limelight.check.instruments.parts import linear_parameters
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers
from limelight.check.report import Finding


@torch.no_grad()
def _patch_order(subject: Subject) -> Finding:
    """Change one patch of the image: only its own token changes."""
    found = _order_of_tokens(subject, subject.sizes)
    takes_pairs = not subject.is_module or re.search(r"tuple|pair", subject.source_code)
    if found.verdict != "pass" or not takes_pairs:
        return found
    # Functions, and classes that take pairs of sizes, are also tested with an image that is not square: it
    # shows whether rows and columns are swapped.
    wide = subject.sizes.replace(image=(subject.sizes.image[0], subject.sizes.image[1] + subject.sizes.patch))
    try:
        subject.model(image=wide.image)
    except Exception:  # its constructor takes no pairs
        return found
    try:
        return _order_of_tokens(subject, wide)
    except Exception as error:
        if is_refusal(error) or subject.sizes.patches_per_side:
            return found
        return broken(f"an image of {wide.image[0]} × {wide.image[1]} pixels", "an output", str(error))


def _order_of_tokens(subject: Subject, sizes: Sizes) -> Finding:
    model, case = subject.model(image=sizes.image), subject.case(image=sizes.image)
    before = subject.call(model, case).out
    rows, columns = (side // sizes.patch for side in sizes.image)
    if before.dim() != 3:
        return inapplicable("it returns no sequence of patches")
    extra = before.shape[1] - rows * columns
    if extra not in (0, 1):
        return broken(
            f"an image of {sizes.image[0]} × {sizes.image[1]} pixels in patches of {sizes.patch} pixels",
            f"{rows * columns} tokens",
            f"{before.shape[1]} tokens",
        )
    for number in range(rows * columns):
        y, x = divmod(number, columns)
        changed = _with_other_patch(case.x, number, sizes)
        after = subject.call(model, Case(changed)).out
        change = ((after - before).abs().amax((0, 2)) > 1e-5).nonzero().flatten().tolist()
        if change != [number + extra]:
            return broken(
                f"the patch in row {y}, column {x} is changed",
                f"token {number + extra} changes, as patches are ordered row by row",
                f"tokens {change} change",
            )
    return _pixels(subject, before, case.x)


def _pixels(subject: Subject, tokens: Tensor, image: Tensor) -> Finding:
    """Without a projection, a token has the pixels of its patch, channel by channel or pixel by pixel."""
    p = subject.sizes.patch
    if subject.is_module and any(True for _ in subject.model().parameters()):
        return KEPT
    patch = image[0, :, :p, p : 2 * p]
    token = tokens[0, 1]
    for order in (patch, patch.permute(1, 2, 0)):
        if token.numel() == order.numel() and torch.allclose(token, order.flatten()):
            return KEPT
    return broken(
        "the second patch of the first image",
        f"its pixels, row by row: {numbers(patch.flatten()[:4])} …",
        f"{numbers(token.flatten()[:4])} …",
    )


@torch.no_grad()
def _patches_differ(subject: Subject) -> Finding:
    """For an image of one colour, only positional encodings make a difference between patches."""
    model = subject.model()
    if not any("pos" in name.lower() for name, _ in getattr(model, "named_parameters", list)()):
        return inapplicable("it adds no positions")
    out = subject.call(model, Case(torch.full_like(subject.case().x, 0.5))).out
    if not torch.allclose(out[:, -1], out[:, -2], atol=1e-6):
        return KEPT
    return broken(
        "an image of one colour", "each patch gets its own position", "all patches get the same one"
    )


@torch.no_grad()
def _patch_order_inside(subject: Subject) -> Finding:
    """The input of the first layer of a model: one patch per token, row by row."""
    sizes, model, case = subject.sizes, subject.model(), subject.case()
    width = sizes.channels * sizes.patch**2
    layers = [part for part in model.modules() if isinstance(part, nn.Linear) and part.in_features == width]
    layers = [] if _has_convolution(model) else layers
    tokens_of = (
        partial(_input_of, subject, model, layers[0]) if layers else partial(_embedded, subject, model)
    )
    before = tokens_of(case.x)
    if before is None or before.dim() != 3 or before.shape[1] not in (sizes.patches, sizes.patches + 1):
        return inapplicable("its patches were not found in its computation")
    first = before.shape[1] - sizes.patches
    for number in range(sizes.patches):
        after = tokens_of(_with_other_patch(case.x, number, sizes))
        assert after is not None
        change = (after - before).abs().amax((0, 2)) > 1e-5
        if change.nonzero().flatten().tolist() != [number + first]:
            return broken(
                f"patch {number} of an image is changed, counted row by row from 0",
                f"token {number + first} changes",
                f"tokens {change.nonzero().flatten().tolist()} change",
            )
    return KEPT


def _embedded(subject: Subject, model: nn.Module, images: Tensor) -> Tensor | None:
    """The tokens after a convolution: the first tensor of one token per patch, as wide as the model."""
    _, steps = subject.trace(model, Case(images))
    names = [step.name for step in steps]
    begin = names.index("convolution") + 1 if "convolution" in names else len(steps)
    counts = (subject.sizes.patches, subject.sizes.patches + 1)
    for step in steps[begin:]:
        shape = step.output.shape
        if len(shape) == 3 and shape[1] in counts and shape[2] == subject.sizes.width:
            return step.output
    return None


def _input_of(subject: Subject, model: nn.Module, layer: nn.Module, images: Tensor) -> Tensor:
    """The input of a layer of the model for these images."""
    found: list[Tensor] = []
    hook = layer.register_forward_hook(lambda part, inputs, out: found.append(inputs[0].clone()))
    subject.call(model, Case(images))
    hook.remove()
    return found[0]


def _with_other_patch(images: Tensor, number: int, sizes: Sizes) -> Tensor:
    """The images with one patch changed; patches are counted row by row."""
    p = sizes.patch
    y, x = divmod(number, sizes.image[1] // p)
    changed = images.clone()
    changed[:, :, y * p : (y + 1) * p, x * p : (x + 1) * p] *= -torch.linspace(0.5, 0.9, p)
    return changed


@torch.no_grad()
def _residual(subject: Subject) -> Finding:
    """If the weights of the blocks are 0, the class token, or the patches, still reach the output."""
    model, case = subject.model(), subject.case()
    for _, p in linear_parameters(model):
        if not _is_outside_of_blocks(p, subject, model) or (
            p.dim() == 1 and p.shape[0] != subject.sizes.classes
        ):
            p.zero_()
    before = subject.call(model, case).out
    other = subject.call(model, Case(1 - case.x)).out
    for name, p in model.named_parameters():
        if _is_class_token(name, p, subject.sizes.width):
            p.add_(torch.randn(p.shape))
    after = subject.call(model, case).out
    if not torch.allclose(before, after, atol=1e-5) or not torch.allclose(before, other, atol=1e-5):
        return KEPT
    return broken(
        "the weights of all blocks are 0; another class token, another image",
        "x + 0: the input reaches the output, which changes",
        "it does not change: a residual connection is missing",
    )


@torch.no_grad()
def _class_token(subject: Subject) -> Finding:
    """If the weights of the blocks are 0, the head reads the class token, which no image changes."""
    model, case = subject.model(), subject.case()
    tokens = [name for name, p in model.named_parameters() if _is_class_token(name, p, subject.sizes.width)]
    if not tokens:
        return inapplicable("it has no class token")
    for _, p in linear_parameters(model):
        if not _is_outside_of_blocks(p, subject, model):
            p.zero_()
    out = subject.call(model, case).out
    other = subject.call(model, Case(case.x.flip(0) * 2 - 0.3)).out
    if torch.allclose(out, other, atol=1e-5):
        return KEPT
    return broken(
        "the weights of all blocks are 0, so that no token changes; two images",
        "the same output for both, as the head reads the class token",
        "two different outputs: the head reads a patch",
    )


def _is_class_token(name: str, p: Tensor, width: int) -> bool:
    plain = name.lower()
    return ("cls" in plain or "class" in plain) and p.shape[-1:] == (width,) and p.numel() == width


def _has_convolution(model: nn.Module) -> bool:
    """Whether a convolution embeds the patches, not a linear layer."""
    return any(isinstance(part, nn.Conv2d) for part in model.modules())


def _is_outside_of_blocks(p: Tensor, subject: Subject, model: nn.Module) -> bool:
    """Whether a parameter belongs to the patch embedding or the head."""
    sizes = subject.sizes
    patch = 0 if _has_convolution(model) else sizes.channels * sizes.patch**2
    is_table = p.dim() == 3 and p.shape[1] in (1, sizes.patches, sizes.patches + 1)
    return p.dim() in (1, 4) or patch in p.shape or sizes.classes in p.shape or is_table


@torch.no_grad()
def _all_patches(subject: Subject) -> Finding:
    """Every patch of an image has an influence on the output."""
    sizes = subject.sizes
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    p = sizes.patch
    for y in range(0, sizes.image[0], p):
        for x in range(0, sizes.image[1], p):
            changed = case.x.clone()
            changed[:, :, y : y + p, x : x + p] = torch.rand(p, p) * 3
            if torch.allclose(subject.call(model, Case(changed)).out, before, atol=1e-6):
                return broken(
                    f"the patch in row {y // p}, column {x // p} is changed",
                    "the output changes",
                    "it does not change",
                )
    return KEPT


@torch.no_grad()
def _positions_differ(subject: Subject) -> Finding:
    """If two patches are swapped, the output changes."""
    p = subject.sizes.patch
    model, case = subject.model(), subject.case()
    if not isinstance(model, nn.Module):
        return inapplicable("it is a function")
    swapped = case.x.clone()
    swapped[:, :, :p, :p], swapped[:, :, :p, p : 2 * p] = case.x[:, :, :p, p : 2 * p], case.x[:, :, :p, :p]
    if not torch.allclose(subject.call(model, case).out, subject.call(model, Case(swapped)).out, atol=1e-6):
        return KEPT
    return broken(
        "two patches are swapped", "the output changes", "it does not change: positions have no effect"
    )


_ORDER_HINT = (
    "reshape to (B, C, rows, p, columns, p), then permute, then flatten; the output of a convolution needs "
    "flatten(2).transpose(1, 2)"
)

PROMISES = (
    Promise("patch-order", "patches are ordered row by row, one token per patch", _patch_order, _ORDER_HINT),
    Promise(
        "patch-order",
        "patches are ordered row by row, one token per patch",
        _patch_order_inside,
        _ORDER_HINT,
        variant="inside",
    ),
    Promise(
        "positions-differ",
        "each patch gets its own positional encoding",
        _patches_differ,
        "there is one vector for all positions: the table needs one row per patch",
        variant="patches",
    ),
    Promise(
        "positions-differ",
        "the output depends on the positions of the patches",
        _positions_differ,
        "positional encodings are not added to the patches, or every patch gets the same one",
        variant="images",
    ),
    Promise(
        "residual",
        "the input of each sub-layer is added to its output",
        _residual,
        "write x + sublayer(x), for attention and for the feed-forward network",
        variant="images",
    ),
    Promise(
        "class-token",
        "the head reads the class token, which is the first token",
        _class_token,
        "write cat([class_token, patches], dim=1), and pass x[:, 0] to the head",
    ),
    Promise(
        "all-patches",
        "every patch has an influence on the output",
        _all_patches,
        "patches are cut off, or hidden from attention",
    ),
)
