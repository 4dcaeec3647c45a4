"""English sentences of the phrasebook with the part of speech of each word."""

import re
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from pydantic import Field

from limelight.data.dataset import SPLITS
from limelight.data.synthetic.phrasebook import SENTENCE_KINDS
from limelight.data.synthetic.phrasebook.grammar import (
    clause,
    definite_phrase,
    indefinite_phrase,
    predicate_clause,
    random_object,
    random_place,
    random_pronoun,
    random_subject,
)
from limelight.data.synthetic.phrasebook.lexicon import (
    ADJECTIVES,
    COME,
    GIVE,
    GO,
    INTRANSITIVE_VERBS,
    LIVE,
    NOUNS,
    PEOPLE,
    TALK,
    TRANSITIVE_VERBS,
    Adjective,
    Noun,
    Verb,
    nouns,
)
from limelight.data.synthetic.phrasebook.phrases import EMPTY, MOODS, RandomChoices, finish
from limelight.data.text.conll import Sentence
from limelight.data.text.tagged_text import TaggedText
from limelight.data.text.translation_data import Pair
from limelight.errors import WrongInput
from limelight.randomness import generator

MARK = "|"  # between a word and its part of speech, where the lexicon alone does not determine it
TOKEN = re.compile(r"[^\s.,?']+|'s|[.,?']")
SHARE_UNSEEN = 10  # percent of nouns, adjectives and verbs that do not occur in training
ATTEMPTS = 2_000  # without a new sentence

_WORDS = {
    "DET": "the a an some any every my your his this these her",
    "PRON": "I you he she it we they him them there",
    "AUX": "am are is do does",
    "ADP": "at to from in on under behind of near for",
    "ADV": "often always sometimes now where",
    "PART": "not 's '",
    "CCONJ": "and but",
    "NOUN": "day morning evening today front",
    "PROPN": "Sundays Mondays",
    "PUNCT": ". , ?",
}
_VERBS = (*TRANSITIVE_VERBS, *INTRANSITIVE_VERBS, GO, COME, LIVE, GIVE, TALK)
LEXICON = {word.lower(): part for part, words in _WORDS.items() for word in words.split()}
LEXICON |= {form: "NOUN" for noun in NOUNS for form in noun.forms(False) + noun.forms(True) if form}
LEXICON |= {adjective.english.lower(): "ADJ" for adjective in ADJECTIVES}
LEXICON |= {form.split()[0]: "VERB" for verb in _VERBS for form in (verb.english, verb.english_third)}
# Determiners before a noun or an adjective, otherwise pronouns: "her car", "I see her"; "this car", "this is"
BOTH = {"her", "this", "these"}


def _marked_verb(forms: str, objects: str) -> Verb:
    """A verb that is also a noun or an adjective. Its sentences have no French."""
    base, third = (f"{form}{MARK}VERB" for form in forms.split("/"))
    return Verb(base, third, ("x",) * 5, nouns(objects))


def _marked_noun(forms: str) -> Noun:
    """A noun that is also a verb."""
    one, several = (f"{form}{MARK}NOUN" for form in forms.split("/"))
    return Noun(one, several, "x", "x", False, "event")


def _marked_adjective(word: str, names: str) -> Adjective:
    """An adjective that is also a verb or a noun."""
    return Adjective(f"{word}{MARK}ADJ", ("x",) * 4, nouns(names), word)


# Words that occur as another part of speech in other sentences: I book a room, and I read a book.
AMBIGUOUS_VERBS = (
    _marked_verb("book/books", "hotel restaurant boat"),
    _marked_verb("water/waters", "plant garden park"),
    _marked_verb("phone/phones", PEOPLE),
    _marked_verb("park/parks", "vehicle"),
    _marked_verb("dress/dresses", "child"),
    _marked_verb("milk/milks", "cow"),
    _marked_verb("butter/butters", "bread"),
    _marked_verb("clean/cleans", "room home thing clothes vehicle"),
    _marked_verb("empty/empties", "bag box plate house apartment"),
    _marked_verb("box/boxes", "thing text food"),
    _marked_verb("house/houses", PEOPLE),
    _marked_verb("bank/banks", "money"),
)
_EVENTS = (
    "walk/walks run/runs dance/dances cry/cries play/plays work/works visit/visits help/helps "
    "drink/drinks love/loves watch/watches find/finds"
)
EVENTS = tuple(map(_marked_noun, _EVENTS.split()))
AMBIGUOUS_ADJECTIVES = (
    _marked_adjective("open", "opening box bag spot"),
    _marked_adjective("orange", "thing vehicle furniture clothes"),
)
QUALITIES = tuple(one for one in ADJECTIVES if one.group in ("size", "age", "looks", "famous", "interesting"))
VERBS_OF_EVENTS = tuple(
    verb for verb in TRANSITIVE_VERBS if verb.english in ("see", "want", "have", "forget", "watch", "know")
)


def _done_to_something(rng: RandomChoices) -> Pair:
    """She waters the flowers in the garden."""
    mood, verb = rng.pick(MOODS), rng.pick(AMBIGUOUS_VERBS)
    thing = random_object(rng, verb, mood)
    text = clause(random_subject(rng, mood), verb, mood, thing.text + random_place(rng, 20))
    return finish(text, mood == "question")


def _event(rng: RandomChoices) -> Pair:
    """They do not forget the dance. Her walk is interesting."""
    mood, noun = rng.pick(MOODS), rng.pick(EVENTS)
    phrase = definite_phrase(rng, noun)
    if rng.chance(50):
        text = predicate_clause(phrase, mood, rng.pick(QUALITIES))
    else:
        thing = phrase if rng.chance(50) else indefinite_phrase(rng, noun, mood)
        text = clause(random_subject(rng, mood), rng.pick(VERBS_OF_EVENTS), mood, thing.text)
    return finish(text, mood == "question")


def _state(rng: RandomChoices) -> Pair:
    """The door is open. Are these lamps orange?"""
    mood, adjective = rng.pick(MOODS), rng.pick(AMBIGUOUS_ADJECTIVES)
    return finish(
        predicate_clause(definite_phrase(rng, rng.pick(adjective.nouns)), mood, adjective), mood == "question"
    )


def _habit(rng: RandomChoices) -> Pair:
    """We work at the hotel."""
    mood, verb = rng.pick(MOODS), rng.pick(INTRANSITIVE_VERBS)
    text = clause(random_pronoun(rng, mood), verb, mood, random_place(rng, 50), EMPTY)
    return finish(text, mood == "question")


KINDS: tuple[Callable[[RandomChoices], Pair], ...] = (
    *SENTENCE_KINDS,
    *(_done_to_something,) * 5,
    *(_event,) * 4,
    _state,
    _habit,
)


def tag_sentence(sentence: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tokens of an English sentence of the phrasebook, and their parts of speech."""
    found = [one.partition(MARK) for one in TOKEN.findall(sentence)]
    parts = [part or LEXICON[token.lower()] for token, _, part in found]
    for i, (token, _, _) in enumerate(found):
        if token.lower() in BOTH and parts[i + 1] not in ("NOUN", "ADJ"):
            parts[i] = "PRON"
    return tuple(token for token, _, _ in found), tuple(parts)


def content_words() -> list[str]:
    """The base forms of nouns, adjectives and verbs that have one part of speech."""
    words = [noun.english for noun in NOUNS] + [one.english for one in ADJECTIVES]
    words += [verb.english.split()[0] for verb in _VERBS]
    several = [verb.english for verb in AMBIGUOUS_VERBS] + [noun.english for noun in EVENTS]
    several += [adjective.english for adjective in AMBIGUOUS_ADJECTIVES]
    return [word for word in dict.fromkeys(words) if not any(one.startswith(word + MARK) for one in several)]


def forms_of(words: set[str]) -> set[str]:
    """All forms of base forms, in lower case."""
    pairs = [(noun.english, noun.english_plural) for noun in NOUNS]
    pairs += [(one.english, "") for one in ADJECTIVES]
    pairs += [(verb.english.split()[0], verb.english_third.split()[0]) for verb in _VERBS]
    return {form.lower() for base, other in pairs if base in words for form in (base, other) if form}


class PartsOfSpeech(TaggedText):
    """Generated English sentences with the part of speech of each word, as in Universal Dependencies.

    Possessives such as "my" are determiners here. Many words are ambiguous: "I water the flowers", "I drink
    the water". A tenth of the nouns, adjectives and verbs do not occur in training, but in the other splits.
    Sentences are distinct, within a split and between splits.
    """

    kind: Literal["parts-of-speech"] = Field(
        "parts-of-speech", description="parts of speech of English words"
    )
    train: int = Field(8_000, ge=1, le=1_000_000, description="number of training sentences")
    validation: int = Field(500, ge=1, le=1_000_000, description="number of validation sentences")
    test: int = Field(2_000, ge=1, le=1_000_000, description="number of test sentences")

    def read(self, seed: int) -> tuple[dict[str, list[Sentence]], list[str]]:
        """Generate the sentences of each split."""
        rng = generator(seed, "parts of speech")
        words = content_words()
        order = torch.randperm(len(words), generator=rng).tolist()
        unseen = forms_of({words[i] for i in order[: len(words) * SHARE_UNSEEN // 100]})
        counts = [self.at_most(count) for count in (self.train, self.validation, self.test)]
        names = [name for name, count in zip(SPLITS, counts, strict=True) for _ in range(count)]
        stream = RandomChoices(rng)
        new = distinct(lambda: KINDS[stream.number() % len(KINDS)](stream)[0], set())
        splits: dict[str, list[Sentence]] = {name: [] for name in SPLITS}
        # In random order: likely sentences, which are short, are found first.
        for i in torch.randperm(len(names), generator=rng).tolist():
            tokens, parts = next(new)
            while names[i] == "train" and unseen & {token.lower() for token in tokens}:
                tokens, parts = next(new)
            splits[names[i]].append(Sentence("", tokens, parts))
        return splits, [f"{len(names):,} sentences of the phrasebook"]


def distinct(sample: Callable[[], str], found: set[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Distinct sentences, tagged."""
    while True:
        for _ in range(ATTEMPTS):
            sentence = sample()
            if sentence not in found:
                break
        else:
            raise WrongInput(f"the phrasebook has about {len(found):,} distinct sentences; use fewer")
        found.add(sentence)
        yield tag_sentence(sentence)
