"""Promises about images: patches in their order, a class token that is read."""

import re
from functools import partial

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.sizes import Sizes
from limelight.check.harness.subject import Subject
from limelight.check.promises.nested_blocks import residual_inside
from limelight.check.promises.permutation import source_of
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers
from limelight.check.promises.residuals import linear_parts


@torch.no_grad()
def _patch_order(subject: Subject) -> Outcome:
    """Change one patch of the image, and see which token changes."""
    found = _ordered(subject, subject.sizes)
    if found.verdict != "pass" or (subject.is_module and not re.search(r"tuple|pair", source_of(subject))):
        return found
    # A function takes images of any shape, and so does a class that takes pairs: one that is not square tells
    # rows from columns.
    wide = subject.sizes.but(image=(subject.sizes.image[0], subject.sizes.image[1] + subject.sizes.patch))
    try:
        subject.model(image=wide.image)
    except Exception:  # its constructor takes no pairs after all
        return found
    try:
        return _ordered(subject, wide)
    except Exception as error:
        return broken(f"an image of {wide.image[0]} × {wide.image[1]} pixels", "its patches", str(error))


def _ordered(subject: Subject, sizes: Sizes) -> Outcome:
    model, case = subject.model(image=sizes.image), subject.case(image=sizes.image)
    before = subject.call(model, case).out
    rows, columns = (side // sizes.patch for side in sizes.image)
    if before.dim() != 3:
        return inapplicable("it gives no sequence of patches")
    extra = before.shape[1] - rows * columns
    if extra not in (0, 1):
        return broken(
            f"an image of {sizes.image[0]} × {sizes.image[1]} pixels in patches of {sizes.patch} × "
            f"{sizes.patch}",
            f"{rows * columns} tokens",
            f"{before.shape[1]}",
        )
    for number in range(rows * columns):
        y, x = divmod(number, columns)
        moved = _with_other_patch(case.x, number, sizes)
        after = subject.call(model, Case(moved)).out
        change = ((after - before).abs().amax((0, 2)) > 1e-5).nonzero().flatten().tolist()
        if change != [number + extra]:
            return broken(
                f"the patch in row {y}, column {x} is changed",
                f"token {number + extra} changes: patches go row by row",
                f"tokens {change} change",
            )
    return _pixels(subject, before, case.x)


def _pixels(subject: Subject, tokens: Tensor, image: Tensor) -> Outcome:
    """Without an embedding, a token is its patch: channel by channel, or pixel by pixel."""
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
def _own_places(subject: Subject) -> Outcome:
    """An image of one colour: only positions can make a difference between its patches."""
    model = subject.model()
    if not any("pos" in name.lower() for name, _ in getattr(model, "named_parameters", list)()):
        return inapplicable("it adds no positions")
    out = subject.call(model, Case(torch.full_like(subject.case().x, 0.5))).out
    if not torch.allclose(out[:, -1], out[:, -2], atol=1e-6):
        return KEPT
    return broken("an image of one colour", "each patch gets a position of its own", "all get the same")


@torch.no_grad()
def _cut(subject: Subject) -> Outcome:
    """What the first layer is given of an image: one patch a token, row by row."""
    sizes, model, case = subject.sizes, subject.model(), subject.case()
    width = sizes.channels * sizes.patch**2
    layers = [part for part in model.modules() if isinstance(part, nn.Linear) and part.in_features == width]
    look = partial(_given, subject, model, layers[0]) if layers else partial(_embedded, subject, model)
    before = look(case.x)
    if before is None or before.dim() != 3 or before.shape[1] not in (sizes.patches, sizes.patches + 1):
        return inapplicable("its patches are not seen")
    first = before.shape[1] - sizes.patches
    for number in range(sizes.patches):
        after = look(_with_other_patch(case.x, number, sizes))
        assert after is not None
        change = (after - before).abs().amax((0, 2)) > 1e-5
        if change.nonzero().flatten().tolist() != [number + first]:
            return broken(
                f"patch {number} of an image is changed, row by row from 0 on",
                f"token {number + first} changes",
                f"tokens {change.nonzero().flatten().tolist()} change",
            )
    return KEPT


def _embedded(subject: Subject, model: nn.Module, images: Tensor) -> Tensor | None:
    """The tokens that come of a convolution's patches: the first that are as wide as the model."""
    _, steps = subject.trace(model, Case(images))
    names = [step.name for step in steps]
    begin = names.index("convolution") + 1 if "convolution" in names else len(steps)
    counts = (subject.sizes.patches, subject.sizes.patches + 1)
    for step in steps[begin:]:
        shape = step.output.shape
        if len(shape) == 3 and shape[1] in counts and shape[2] == subject.sizes.width:
            return step.output
    return None


def _given(subject: Subject, model: nn.Module, layer: nn.Module, images: Tensor) -> Tensor:
    """What a layer is given while these images are looked at."""
    found: list[Tensor] = []
    hook = layer.register_forward_hook(lambda part, inputs, out: found.append(inputs[0].clone()))
    subject.call(model, Case(images))
    hook.remove()
    return found[0]


def _with_other_patch(images: Tensor, number: int, sizes: Sizes) -> Tensor:
    """The same with one patch changed; patches are counted row by row."""
    p = sizes.patch
    y, x = divmod(number, sizes.image[1] // p)
    moved = images.clone()
    moved[:, :, y * p : (y + 1) * p, x * p : (x + 1) * p] *= -torch.linspace(0.5, 0.9, p)
    return moved


@torch.no_grad()
def _stream(subject: Subject) -> Outcome:
    """With silent blocks, what goes in comes out: the class token, or the patches."""
    model, case = subject.model(), subject.case()
    for name, p in linear_parts(model):
        if not _is_outer(name, p, subject) or (p.dim() == 1 and p.shape[0] != subject.sizes.classes):
            p.zero_()
    before = subject.call(model, case).out
    other = subject.call(model, Case(1 - case.x)).out
    for name, p in model.named_parameters():
        if _is_token(name, p, subject.sizes.width):
            p.add_(torch.randn(p.shape))
    after = subject.call(model, case).out
    if not torch.allclose(before, after, atol=1e-5) or not torch.allclose(before, other, atol=1e-5):
        found = residual_inside(subject)
        return found if found.verdict == "FAIL" else KEPT
    return broken(
        "blocks silenced (weights 0); another class token, another image",
        "x + 0: what goes in comes through, and the answer changes",
        "it stays: a residual is missing",
    )


@torch.no_grad()
def _class_token(subject: Subject) -> Outcome:
    """With silent blocks, what the head reads is the class token itself, which no image changes."""
    model, case = subject.model(), subject.case()
    tokens = [name for name, p in model.named_parameters() if _is_token(name, p, subject.sizes.width)]
    if not tokens:
        return inapplicable("it has no class token")
    for name, p in linear_parts(model):
        if not _is_outer(name, p, subject):
            p.zero_()
    out = subject.call(model, case).out
    other = subject.call(model, Case(case.x.flip(0) * 2 - 0.3)).out
    if torch.allclose(out, other, atol=1e-5):
        return KEPT
    return broken(
        "blocks silenced (weights 0), so that each token stays what it was; two images",
        "the same answer for both: the head reads the class token",
        "two answers: the head reads a patch",
    )


def _is_token(name: str, p: Tensor, width: int) -> bool:
    plain = name.lower()
    return ("cls" in plain or "class" in plain) and p.shape[-1:] == (width,) and p.numel() == width


def _is_outer(name: str, p: Tensor, subject: Subject) -> bool:
    """Of the patch embedding, or of the head: what stands outside of the blocks."""
    sizes = subject.sizes
    patch = sizes.channels * sizes.patch**2
    return p.dim() == 4 or patch in p.shape or sizes.classes in p.shape or p.dim() == 3 or p.dim() == 1


@torch.no_grad()
def _all_patches(subject: Subject) -> Outcome:
    """Every patch of an image has a say."""
    sizes = subject.sizes
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    p = sizes.patch
    for y in range(0, sizes.image[0], p):
        for x in range(0, sizes.image[1], p):
            moved = case.x.clone()
            moved[:, :, y : y + p, x : x + p] = torch.rand(p, p) * 3
            if torch.allclose(subject.call(model, Case(moved)).out, before, atol=1e-6):
                return broken(
                    f"the patch at row {y // p}, column {x // p} is changed", "the answer changes", "it stays"
                )
    return KEPT


@torch.no_grad()
def _places(subject: Subject) -> Outcome:
    """Two patches that change places make a difference."""
    p = subject.sizes.patch
    model, case = subject.model(), subject.case()
    if not isinstance(model, nn.Module):
        return inapplicable("it is a function")
    moved = case.x.clone()
    moved[:, :, :p, :p], moved[:, :, :p, p : 2 * p] = case.x[:, :, :p, p : 2 * p], case.x[:, :, :p, :p]
    if not torch.allclose(subject.call(model, case).out, subject.call(model, Case(moved)).out, atol=1e-6):
        return KEPT
    return broken("two patches change places", "the answer changes", "it stays: positions are not told apart")


PATCHES = (
    Promise(
        "patch-order",
        "patches come row by row, each in a token of its own",
        _patch_order,
        "reshape to (B, C, rows, p, columns, p), then permute, then flatten; a convolution's output is "
        "flatten(2).transpose(1, 2)",
    ),
)
PLACED = (
    Promise(
        "positions-differ",
        "patches are told apart by their places",
        _own_places,
        "one vector for each place, not one for all",
    ),
)
WHOLE = (
    Promise(
        "patch-order",
        "patches come row by row, each in a token of its own",
        _cut,
        "reshape to (B, C, rows, p, columns, p), then permute, then flatten",
    ),
    Promise(
        "residual",
        "each sub-layer is added to what it was given",
        _stream,
        "x + sublayer(x), around attention and around the feed-forward network",
    ),
    Promise(
        "class-token",
        "the head reads the class token, which stands first",
        _class_token,
        "cat([class_token, patches], dim=1), and then x[:, 0]",
    ),
    Promise(
        "all-patches", "every patch has a say", _all_patches, "patches that are cut off, or never attended to"
    ),
    Promise(
        "positions-differ",
        "patches are told apart by their places",
        _places,
        "positions must be added to the patches, and each must get its own",
    ),
)
