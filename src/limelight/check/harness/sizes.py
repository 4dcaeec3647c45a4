"""The sizes of all test inputs: small, and different where two axes could be confused."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    """The sizes of the inputs, and the values that constructors get."""

    batch: int = 5
    queries: int = 3  # positions of a target, or of a sequence with self-attention
    keys: int = 4  # positions of a source
    width: int = 12
    heads: int = 2
    hidden: int = 20
    values: int = 8  # width of the values of an attention without projections; its keys have `head_width`
    depth: int = 2
    vocabulary: int = 11
    classes: int = 7
    longest: int = 16  # the maximum length that constructors get
    channels: int = 3
    image: tuple[int, int] = (9, 9)
    patch: int = 3
    dropout: float = 0.0
    patches_per_side: bool = False  # whether an argument `n_patches` is the number of patches in a row
    source_width: int = 0  # the width of the source, if it is not that of the target

    @property
    def memory(self) -> int:
        """The width of the source or memory."""
        return self.source_width or self.width

    @property
    def head_width(self) -> int:
        """The width of one head."""
        return self.width // self.heads

    @property
    def patches(self) -> int:
        """The number of patches of one image."""
        return (self.image[0] // self.patch) * (self.image[1] // self.patch)

    def replace(self, **changes: object) -> "Sizes":
        """A copy with other values."""
        return replace(self, **changes)  # type: ignore[arg-type]


SIZES = Sizes()
