"""Pairs of generated English sentences: the second follows from the first, contradicts it, or neither."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import torch
from pydantic import Field

from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, DataConfig, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.synthetic.phrasebook import MOVABLE
from limelight.data.synthetic.phrasebook.grammar import (
    HUMANS,
    LIVING,
    clause,
    definite_phrase,
    object_pronoun,
    random_place,
    subject_pronoun,
)
from limelight.data.synthetic.phrasebook.lexicon import TRANSITIVE_VERBS, Verb, nouns
from limelight.data.synthetic.phrasebook.phrases import EMPTY, Bilingual, Mood, Phrase, RandomChoices, finish
from limelight.data.text.symbols import Answers
from limelight.data.text.text_pair import TextPair, join_pair
from limelight.data.text.vocabulary import Words
from limelight.errors import WrongInput
from limelight.randomness import generator

NAMES = ("contradiction", "entailment", "neutral")
MOODS: tuple[Mood, ...] = ("statement", "negation")
# People whom English calls "he" or "she"; of others, such as "friend", only the plural has one pronoun.
OF_KNOWN_GENDER = nouns("adult boy girl kin")
LONGEST = 50  # tokens of a sentence: more than the grammar generates
ATTEMPTS = 2_000  # without new sentences

Pair = tuple[str, int]  # a line with two sentences, and the index of its label


@dataclass(frozen=True)
class Event:
    """Who does what to what, and where."""

    subject: Phrase
    verb: Verb
    thing: Phrase
    place: Bilingual

    def sentence(self, mood: Mood, style: tuple[bool, bool] = (False, False)) -> str:
        """The event, or its negation; `style` tells whether subject and object become pronouns."""
        subject = subject_pronoun(self.subject) if style[0] else self.subject
        thing, pronoun = (EMPTY, object_pronoun(self.thing)) if style[1] else (self.thing.text, EMPTY)
        return finish(clause(subject, self.verb, mood, thing + self.place, pronoun=pronoun))[0]


def _has_pronoun(phrase: Phrase) -> bool:
    return phrase.plural or phrase.noun in OF_KNOWN_GENDER or phrase.noun not in HUMANS


def _random_event(rng: RandomChoices) -> Event:
    verb = rng.pick(TRANSITIVE_VERBS)
    thing = definite_phrase(rng, rng.pick(verb.objects))
    place = random_place(rng, 25) if thing.noun in MOVABLE and not verb.stative else EMPTY
    return Event(_random_subject(rng, verb), verb, thing, place)


def _random_subject(rng: RandomChoices, verb: Verb) -> Phrase:
    return definite_phrase(rng, rng.pick(LIVING if verb.animals else HUMANS))


def _change(rng: RandomChoices, event: Event) -> Event:
    """The event with another subject, verb or object; or, as often, an event of its own."""
    if rng.chance(50):
        return _random_event(rng)
    part = rng.pick(("subject", "verb", "thing"))
    if part == "subject":
        return replace(event, subject=_random_subject(rng, event.verb))
    if part == "thing":
        movable = event.thing.noun in MOVABLE
        objects = [noun for noun in event.verb.objects if (noun in MOVABLE) == movable]
        return replace(event, thing=definite_phrase(rng, rng.pick(objects)))
    verbs = [
        verb
        for verb in TRANSITIVE_VERBS
        if event.thing.noun in verb.objects
        and (verb.animals or event.subject.noun in HUMANS)
        and not (verb.stative and event.place is not EMPTY)
    ]
    return replace(event, verb=rng.pick(verbs))


def block(rng: RandomChoices) -> list[Pair] | None:
    """Twelve pairs of two events, in which each sentence occurs once with each label; None by bad luck.

    Each event is affirmed and negated, which gives four first sentences and four second ones, with pronouns.
    A first sentence has the label "entailment" with its own second one, "contradiction" with that of opposite
    mood, and "neutral" with one of the other event. So neither sentence alone tells anything of the label.
    """
    event, style = _random_event(rng), rng.pick(((True, False), (False, True), (True, True)))
    other = _change(rng, event)
    parts = [(one.subject.noun, one.verb, one.thing.noun) for one in (event, other)]
    if parts[0] == parts[1]:
        return None
    phrases = [phrase for one in (event, other) for phrase in (one.subject, one.thing)]
    if not all(_has_pronoun(phrase) for phrase, used in zip(phrases, style * 2, strict=True) if used):
        return None
    events = (event, other)
    firsts = {(i, mood): one.sentence(mood) for i, one in enumerate(events) for mood in MOODS}
    seconds = {(i, mood): one.sentence(mood, style) for i, one in enumerate(events) for mood in MOODS}
    if len({*firsts.values(), *seconds.values()}) < 8:
        return None  # the difference between the events is not visible
    opposite = dict(zip(MOODS, MOODS[::-1], strict=True))
    turned = rng.chance(50)
    found = list[Pair]()
    for (i, mood), first in firsts.items():
        unrelated = seconds[1 - i, opposite[mood] if turned else mood]
        for second, name in (
            (seconds[i, mood], "entailment"),
            (seconds[i, opposite[mood]], "contradiction"),
            (unrelated, "neutral"),
        ):
            found.append((join_pair((first, second)), NAMES.index(name)))
    return found


class Agreement(DataConfig):
    """Generated pairs of English sentences: does the second follow from the first, or contradict it?

    "My sister reads the letter." entails "She reads it." and contradicts "She does not read the letter." In
    half of the neutral pairs, only one part differs: "He reads it.", "She forgets it."

    Neither sentence alone tells the label: each occurs once with each of the three. No first sentence occurs
    in two splits.
    """

    kind: Literal["agreement"] = Field(
        "agreement", description="whether one generated sentence follows from another"
    )
    train: int = Field(24_000, ge=1, le=1_000_000, description="number of training pairs")
    validation: int = Field(1_200, ge=1, le=1_000_000, description="number of validation pairs")
    test: int = Field(3_000, ge=1, le=1_000_000, description="number of test pairs")

    def load(self, seed: int, reader: TextPair | None = None) -> SequenceData:
        """Generate the pairs of each split, and the vocabulary from training unless one is given."""
        rng = generator(seed, "agreement")
        stream, known = RandomChoices(rng), set[str]()
        examples, texts = dict[str, Examples](), dict[str, list[str]]()
        for name, count in zip(SPLITS, (self.train, self.validation, self.test), strict=True):
            # Blocks are complete where the number is a multiple of twelve.
            found = list(islice(_distinct_pairs(stream, known), self.at_most(count)))
            pairs = [found[i] for i in torch.randperm(len(found), generator=rng).tolist()]
            texts[name] = [line for line, _ in pairs]
            reader = reader or _build_reader(texts[name])
            rows = Ragged.from_rows([reader.encode(line) for line, _ in pairs])
            examples[name] = Examples(rows, torch.tensor([label for _, label in pairs]))
        assert reader is not None
        notes = (f"{sum(map(len, texts.values())):,} pairs of sentences of the phrasebook",)
        return SequenceData(examples, reader, Answers(kind="class", names=NAMES), notes, texts=texts)


def _build_reader(lines: list[str]) -> TextPair:
    return TextPair(vocabulary=Words.build(lines, 20_000), longest=LONGEST)


def _distinct_pairs(rng: RandomChoices, known: set[str]) -> Iterator[Pair]:
    """The pairs of blocks whose first sentences do not occur in `known`, to which they are added."""
    while True:
        for _ in range(ATTEMPTS):
            pairs = block(rng) or []
            firsts = {line.partition("\t")[0] for line, _ in pairs}
            if firsts and not firsts & known:
                break
        else:
            raise WrongInput(f"the phrasebook has about {3 * len(known):,} such pairs; use fewer")
        known |= firsts
        yield from pairs
