"""What the data tells a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Items are tokens of a vocabulary, or vectors of features: the other of the two is 0."""

    outputs: int
    vocabulary: int = 0
    features: int = 0
    longest: int = 0  # of the sequences that were seen
    shared: bool = False  # whether inputs and outputs are tokens of one vocabulary
