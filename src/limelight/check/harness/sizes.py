"""The sizes that everything is tried with: small enough to follow by hand, no two alike where it matters."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    batch: int = 5
    queries: int = 3  # positions of a target, or of a sequence that looks at itself
    keys: int = 4  # positions of a source
    width: int = 12
    heads: int = 2
    hidden: int = 20
    values: int = 5  # width of the values of a bare attention function, whose keys have `head_width`
    depth: int = 2
    vocabulary: int = 11
    classes: int = 7
    longest: int = 16
    channels: int = 3
    image: tuple[int, int] = (8, 8)
    patch: int = 4
    dropout: float = 0.0

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def patches(self) -> int:
        return (self.image[0] // self.patch) * (self.image[1] // self.patch)

    def but(self, **changes: object) -> "Sizes":
        return replace(self, **changes)  # type: ignore[arg-type]


SIZES = Sizes()
