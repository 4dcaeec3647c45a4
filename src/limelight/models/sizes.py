"""Data-dependent model dimensions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The dimensions of a model that depend on its data.

    Inputs are tokens of a vocabulary, vectors of features, or images; the sizes of the other kinds are 0.
    """

    outputs: int  # classes, numbers per prediction, or tokens of the target vocabulary
    vocabulary: int = 0
    ngrams: int = 0  # words and n-grams, if each item is a word with its n-grams or affixes
    separator: int = 0  # the token between two texts, if an input is a pair of texts
    features: int = 0
    longest: int = 0  # the length of the longest sequence in the data
    shared: bool = False  # whether inputs and outputs are tokens of the same vocabulary
    image: tuple[int, int, int] = (0, 0, 0)  # channels, rows, columns
