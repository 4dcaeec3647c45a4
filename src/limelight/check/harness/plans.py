"""The sizes that are tried, one after the other, until an object can be constructed and called."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from limelight.check.harness.constants import size_constants, sizes_of_constants
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import Kind

COMMON_WIDTHS = (64, 512)
COMMON_IMAGES = (((28, 28), 4, 1), ((28, 28), 7, 1), ((32, 32), 4, 3), ((224, 224), 16, 3))


@dataclass(frozen=True)
class Plan:
    """One attempt: the sizes, and what else is done with the object."""

    sizes: Sizes
    replace_constants: bool = False  # constants of the file that are sizes get our sizes
    keep_defaults: bool = False  # only arguments without a default get values
    fill_options: bool = False  # arguments with the default None get values, too
    usual_forms: bool = False  # only tensors of the usual shapes are tried
    note: str = ""


def plans(target: Any, kind: Kind, sizes: Sizes) -> Iterator[Plan]:
    """The attempts, the most informative first: small sizes of our own, then those of the file."""
    constants = size_constants(target)
    if constants:
        yield Plan(sizes, replace_constants=True)
    if kind.is_bare:
        yield Plan(sizes, usual_forms=True)
        note = "a source as long as the target"
        yield Plan(sizes.replace(keys=sizes.queries), usual_forms=True, note=note)
    yield Plan(sizes)
    if kind.is_positional or kind.is_attention or kind.is_block or kind.is_stack:
        # A table or a mask that is added as a whole fits inputs of its own length only.
        longest = sizes.replace(queries=sizes.longest, keys=sizes.longest)
        note = "sequences of its maximum length"
        yield Plan(longest, replace_constants=bool(constants), note=note)
    if not kind.has_one_input:
        yield Plan(sizes.replace(keys=sizes.queries), note="a source as long as the target")
    if kind.is_additive:
        # The encoder is often bidirectional: twice the width of the decoder.
        yield Plan(sizes.replace(source_width=2 * sizes.width), note="a source of twice the width")
    if constants:
        yield Plan(sizes_of_constants(target, sizes), note="the sizes of the constants in the file")
    yield Plan(sizes, keep_defaults=True, note="the defaults of its constructor")
    yield Plan(sizes, fill_options=True, note="values for its optional arguments")
    if kind.reads_images:
        for image, patch, channels in COMMON_IMAGES:
            yield Plan(
                sizes.replace(image=image, patch=patch, channels=channels, width=64, heads=4),
                note=f"images of {image[0]} × {image[1]} pixels",
            )
    for width in COMMON_WIDTHS:
        yield Plan(sizes.replace(width=width, heads=8, hidden=2 * width + 8), note=f"the width {width}")
