"""What the data tells a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Items are tokens of a vocabulary, vectors of features, or images: what they are not is 0."""

    outputs: int
    vocabulary: int = 0
    features: int = 0
    longest: int = 0  # of the sequences that were seen
    shared: bool = False  # whether inputs and outputs are tokens of one vocabulary
    image: tuple[int, int, int] = (0, 0, 0)  # channels, rows, columns
