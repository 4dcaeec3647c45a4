"""Phrases in English and French, and the spelling of their words in context."""

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


class RandomChoices:
    """Random choices from a torch generator. Numbers are generated in blocks, which is faster."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.numbers: list[int] = []

    def number(self) -> int:
        """A random integer from 0 to 2**31 - 1."""
        if not self.numbers:
            self.numbers = torch.randint(2**31, (65_536,), generator=self.generator).tolist()
        return self.numbers.pop()

    def pick(self, choices: Sequence[T]) -> T:
        """A random element."""
        return choices[self.number() % len(choices)]

    def chance(self, percent: int) -> bool:
        """True with a probability of `percent`."""
        return self.number() % 100 < percent


@dataclass(frozen=True, slots=True)
class Bilingual:
    """A part of a sentence in both languages."""

    english: str = ""
    french: str = ""

    def __add__(self, other: "Bilingual") -> "Bilingual":
        return Bilingual(f"{self.english} {other.english}", f"{self.french} {other.french}")


EMPTY = Bilingual()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase or a pronoun, with the properties that verbs and adjectives agree with."""

    text: Bilingual
    person: int  # index into (je, tu, il, nous, ils)
    feminine: bool = False
    noun: Noun | None = None
    adjective: Adjective | None = None

    @property
    def plural(self) -> bool:
        """Whether the phrase is in the plural."""
        return self.person > 2


PRONOUNS = (
    Phrase(Bilingual("I", "je"), 0),
    Phrase(Bilingual("you", "tu"), 1),
    Phrase(Bilingual("he", "il"), 2),
    Phrase(Bilingual("she", "elle"), 2, feminine=True),
    Phrase(Bilingual("we", "nous"), 3),
    Phrase(Bilingual("they", "ils"), 4),
)
HIM, HER, THEM = Bilingual("him", "le"), Bilingual("her", "la"), Bilingual("them", "les")

# English singular and plural; French masculine, feminine and plural.
Determiner = tuple[str, str, str, str, str]
THE: Determiner = ("the", "the", "le", "la", "les")
THIS: Determiner = ("this", "these", "ce", "cette", "ces")
POSSESSIVES: tuple[Determiner, ...] = (
    ("my", "my", "mon", "ma", "mes"),
    ("your", "your", "ton", "ta", "tes"),
    ("his", "his", "son", "sa", "ses"),
    ("her", "her", "son", "sa", "ses"),
)

HABITUAL_TIMES = (
    Bilingual("every day", "tous les jours"),
    Bilingual("in the morning", "le matin"),
    Bilingual("in the evening", "le soir"),
    Bilingual("on Sundays", "le dimanche"),
    Bilingual("on Mondays", "le lundi"),
)
PRESENT_TIMES = (
    Bilingual("today", "aujourd'hui"),
    Bilingual("now", "maintenant"),
    Bilingual("this evening", "ce soir"),
)
FREQUENCIES = (
    Bilingual("often", "souvent"),
    Bilingual("always", "toujours"),
    Bilingual("sometimes", "parfois"),
)

AND, BUT, COMMA = Bilingual("and", "et"), Bilingual(", but", ", mais"), Bilingual(",", ",")
CONJUNCTIONS: tuple[tuple[Bilingual, Mood], ...] = ((AND, "statement"), (BUT, "negation"))
MOODS: tuple[Mood, ...] = (*("statement",) * 6, *("negation",) * 2, *("question",) * 2)


def starts_with_vowel_sound(word: str) -> bool:
    """Whether a French word starts with a vowel or a mute h."""
    return word[0] in "aeiouàâéèêîôûœ" or (word[0] == "h" and not word.startswith("héros"))


CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
ELIDED = {"le": "l'", "la": "l'", "je": "j'", "ne": "n'", "de": "d'", "que": "qu'"}
BEFORE_A_VOWEL = {"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"}


def spell_french(words: str) -> str:
    """Apply elision and contraction from right to left: "de le ami" becomes "de l'ami", not "du ami"."""
    spelled: list[str] = []
    for word in reversed(words.split()):
        following = spelled[-1] if spelled else "."
        if (word, following) in CONTRACTED:
            spelled[-1] = CONTRACTED[word, following]
        elif word in ELIDED and starts_with_vowel_sound(following):
            spelled[-1] = ELIDED[word] + following
        else:
            spelled.append(BEFORE_A_VOWEL.get(word, word) if starts_with_vowel_sound(following) else word)
    return " ".join(reversed(spelled))


def spell_english(words: str) -> str:
    """Replace "a" by "an" before a vowel."""
    spelled = words.split()
    for i, word in enumerate(spelled[:-1]):
        if word == "a" and spelled[i + 1][0] in "aeiouAEIOU":
            spelled[i] = "an"
    return " ".join(spelled)


def finish(text: Bilingual, question: bool = False) -> Pair:
    """Add a capital letter and the final mark; French has a narrow no-break space before "?"."""
    english, french = (
        spelled.replace(" ,", ",") for spelled in (spell_english(text.english), spell_french(text.french))
    )
    ends = ("?", "\u202f?") if question else (".", ".")
    return english[0].upper() + english[1:] + ends[0], french[0].upper() + french[1:] + ends[1]
