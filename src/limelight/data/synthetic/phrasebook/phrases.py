"""What the sentences of the phrasebook are built of, and how their words are spelled side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch

from limelight.data.synthetic.phrasebook.lexicon import (
    Adjective,
    Noun,
)
from limelight.data.text.translation_data import Pair

Mood = Literal["statement", "negation", "question"]
T = TypeVar("T")


class Dice:
    """Random choices. Numbers are drawn in blocks, because torch is slow at single ones."""

    def __init__(self, draw: torch.Generator) -> None:
        self.draw = draw
        self.numbers: list[int] = []

    def number(self) -> int:
        if not self.numbers:
            self.numbers = torch.randint(2**31, (65_536,), generator=self.draw).tolist()
        return self.numbers.pop()

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.number() % len(choices)]

    def chance(self, percent: int) -> bool:
        return self.number() % 100 < percent


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of a sentence in both languages."""

    english: str = ""
    french: str = ""

    def __add__(self, other: "Said") -> "Said":
        return Said(f"{self.english} {other.english}", f"{self.french} {other.french}")


NOTHING = Said()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun with what belongs to it, or a pronoun."""

    said: Said
    person: int  # je, tu, il, nous, ils
    feminine: bool = False
    noun: Noun | None = None
    adjective: Adjective | None = None

    @property
    def plural(self) -> bool:
        return self.person > 2


PRONOUNS = (
    Phrase(Said("I", "je"), 0),
    Phrase(Said("you", "tu"), 1),
    Phrase(Said("he", "il"), 2),
    Phrase(Said("she", "elle"), 2, feminine=True),
    Phrase(Said("we", "nous"), 3),
    Phrase(Said("they", "ils"), 4),
)
HIM, HER, THEM = Said("him", "le"), Said("her", "la"), Said("them", "les")

# English in the singular and the plural; French masculine, feminine and plural.
Determiner = tuple[str, str, str, str, str]
THE: Determiner = ("the", "the", "le", "la", "les")
THIS: Determiner = ("this", "these", "ce", "cette", "ces")
POSSESSIVES: tuple[Determiner, ...] = (
    ("my", "my", "mon", "ma", "mes"),
    ("your", "your", "ton", "ta", "tes"),
    ("his", "his", "son", "sa", "ses"),
    ("her", "her", "son", "sa", "ses"),
)

HABITS = (
    Said("every day", "tous les jours"),
    Said("in the morning", "le matin"),
    Said("in the evening", "le soir"),
    Said("on Sundays", "le dimanche"),
    Said("on Mondays", "le lundi"),
)
STATES = (Said("today", "aujourd'hui"), Said("now", "maintenant"), Said("this evening", "ce soir"))
HOW_OFTEN = (Said("often", "souvent"), Said("always", "toujours"), Said("sometimes", "parfois"))

AND, BUT, COMMA = Said("and", "et"), Said(", but", ", mais"), Said(",", ",")
JOINTS: tuple[tuple[Said, Mood], ...] = ((AND, "statement"), (BUT, "negation"))
MOODS: tuple[Mood, ...] = (*("statement",) * 6, *("negation",) * 2, *("question",) * 2)


def sounds_open(word: str) -> bool:
    """Whether it begins with a vowel or a mute h."""
    return word[0] in "aeiouàâéèêîôûœ" or (word[0] == "h" and not word.startswith("héros"))


CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
ELIDED = {"le": "l'", "la": "l'", "je": "j'", "ne": "n'", "de": "d'", "que": "qu'"}
BEFORE_A_VOWEL = {"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"}


def spell_french(words: str) -> str:
    """Elision and contraction, from the end, so that "de le ami" is "de l'ami" and never "du ami"."""
    spelled: list[str] = []
    for word in reversed(words.split()):
        following = spelled[-1] if spelled else "."
        if (word, following) in CONTRACTED:
            spelled[-1] = CONTRACTED[word, following]
        elif word in ELIDED and sounds_open(following):
            spelled[-1] = ELIDED[word] + following
        else:
            spelled.append(BEFORE_A_VOWEL.get(word, word) if sounds_open(following) else word)
    return " ".join(reversed(spelled))


def spell_english(words: str) -> str:
    spelled = words.split()
    for i, word in enumerate(spelled[:-1]):
        if word == "a" and spelled[i + 1][0] in "aeiouAEIOU":
            spelled[i] = "an"
    return " ".join(spelled)


def finish(said: Said, asked: bool = False) -> Pair:
    """A capital letter and a mark; in French, a narrow space that does not break stands before "?"."""
    english, french = (
        text.replace(" ,", ",") for text in (spell_english(said.english), spell_french(said.french))
    )
    ends = ("?", "\u202f?") if asked else (".", ".")
    return english[0].upper() + english[1:] + ends[0], french[0].upper() + french[1:] + ends[1]
