"""English sentences with their French, from a small grammar: offline, correct, tens of thousands of them.

One English sentence has one French. Where French says more than English, this is the convention:

- "you" is "tu"; I, you and we are men: "I am tired" is "je suis fatigué";
- "they" is "ils", unless it takes up a noun with which the sentence begins: then it has the noun's gender,
  as "it" always has: "the cars are old, but they are red" is "les voitures …, mais elles sont rouges";
- "him" is "le", "her" is "la" and "them" is "les" before the verb; "his" and "her" are both "son, sa, ses";
- a teacher, a neighbour, a friend and other people are of one gender, the one in the lexicon;
- questions begin with "est-ce que", and "every day" is "tous les jours".

A sentence is built of pieces that say the same in both languages. Pieces hold whole words ("de le ami");
elision and contraction are left to the end, where neighbours are known ("de l'ami").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar

import torch
from pydantic import Field

from limelight.config import Config
from limelight.data.dataset import SPLITS
from limelight.data.lexicon import (
    ACTIONS,
    AT,
    AT_HOME,
    BE,
    COME,
    DEEDS,
    FROM,
    GIVE,
    GO,
    IN,
    LIVE,
    NOUNS,
    OWNED,
    PEOPLE,
    PREPOSITIONS,
    SIGHTS,
    TALK,
    TO,
    WORK,
    Adjective,
    Noun,
    Preposition,
    Verb,
    adjectives_of,
    nouns,
)
from limelight.data.sentences import Pair, Sentences
from limelight.errors import WrongInput
from limelight.randomness import generator

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

HUMANS, BEINGS = nouns(PEOPLE), nouns(f"{PEOPLE} animal")
(SOMEBODY,) = nouns("brother")  # what can be said of him can be said of everybody
MOVABLE = frozenset(nouns(f"{PEOPLE} animal thing clothes text food drink money"))
LOST = nouns(f"{PEOPLE} animal thing vehicle clothes text food drink money spot garden kitchen park")
# Places and a few more are seldom the object of a verb: here they count five times.
TOPICS = NOUNS + 4 * nouns(f"{SIGHTS} plant art furniture opening")
DESCRIBED = tuple(
    noun for noun in TOPICS if len({each.group for each in adjectives_of(noun) if each.alone}) > 1
)

ACTION = {verb.english: verb for verb in ACTIONS}
DONE_TO_PEOPLE = tuple(verb for verb in ACTIONS if SOMEBODY in verb.objects)
# What is done to a thing, and then to the same thing.
SEQUELS = (
    *(("look for", BUT, "find"), ("see", BUT, "take"), ("want", BUT, "buy"), ("wait for", BUT, "see")),
    *(("have", BUT, "sell"), ("have", BUT, "read"), ("have", BUT, "wear"), ("see", BUT, "know")),
    *(("see", AND, "help"), ("see", AND, "take"), ("buy", AND, "eat"), ("take", AND, "eat")),
    *(("buy", AND, "drink"), ("take", AND, "drink"), ("take", AND, "read"), ("find", AND, "open")),
)

# Spelling


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


# Nouns with what belongs to them


def build(
    determiner: Said, noun: Noun, plural: bool = False, adjective: Adjective | None = None, owner: str = ""
) -> Phrase:
    """What agrees with a noun. `owner` is what French says after it where English says it before."""
    english, french = noun.forms(plural)
    article = determiner.french
    if adjective is not None:
        english = f"{adjective.english} {english}"
        agreed = adjective.agree(noun.feminine, plural)
        if not adjective.before:
            french = f"{french} {agreed}"
        else:
            if not plural and not noun.feminine and sounds_open(french):
                agreed = adjective.before
            article = "de" if article == "de les" else article
            french = f"{agreed} {french}"
    said = Said(f"{determiner.english} {english}", f"{article} {french} {owner}")
    return Phrase(said, 4 if plural else 2, noun.feminine, noun, adjective)


def choose(determiner: Determiner, noun: Noun, plural: bool) -> Said:
    return Said(determiner[plural], determiner[4] if plural else determiner[2 + noun.feminine])


def indefinite(noun: Noun, plural: bool, mood: Mood) -> Said:
    """A and some; any in questions and, with "de" alone, in negations."""
    one = bool(noun.english_plural) and not plural
    english = "a" if one else "some" if mood == "statement" else "any"
    if mood == "negation":
        return Said(english, "de")
    if one:
        return Said(english, "une" if noun.feminine else "un")
    return Said(english, "de les" if plural else "de la" if noun.feminine else "de le")


def some_number(dice: Dice, noun: Noun) -> bool:
    return bool(noun.english_plural) and dice.chance(45)


def some_adjective(dice: Dice, noun: Noun) -> Adjective | None:
    """There is one father: which one it is needs no saying."""
    fitting = adjectives_of(noun) if noun.english_plural or noun.kind != "kin" else ()
    return dice.pick(fitting) if fitting and dice.chance(35) else None


def determiners(noun: Noun, shown: bool = False) -> tuple[Determiner, ...]:
    """What is `shown` already is not "this" once more."""
    if noun.kind == "kin":
        return POSSESSIVES
    owners = POSSESSIVES if noun in OWNED else ()
    return (THE, THE, *owners) if shown else (THE, THE, THIS, *owners)


def belong(owner: Phrase, noun: Noun, plural: bool = False, adjective: Adjective | None = None) -> Phrase:
    """My friend's red car. La voiture rouge de mon ami."""
    english, french = owner.said.english, owner.said.french
    mark = "'" if owner.plural and english.endswith("s") else "'s"
    article = choose(THE, noun, plural).french
    return build(Said(english + mark, article), noun, plural, adjective, f"de {french}")


def known(dice: Dice, noun: Noun, plain: bool = False, shown: bool = False) -> Phrase:
    """The cat, this cat, my cat, my friend's cat; `plain`: without an adjective."""
    plural, adjective = some_number(dice, noun), None if plain else some_adjective(dice, noun)
    if noun in OWNED and dice.chance(15):
        owner = dice.pick([person for person in HUMANS if person != noun])
        many = some_number(dice, owner)
        theirs = build(choose(dice.pick(determiners(owner, shown)), owner, many), owner, many)
        return belong(theirs, noun, plural, adjective)
    return build(choose(dice.pick(determiners(noun, shown)), noun, plural), noun, plural, adjective)


def unknown(dice: Dice, noun: Noun, mood: Mood) -> Phrase:
    """A cat, some cats, some milk."""
    plural = some_number(dice, noun)
    return build(indefinite(noun, plural, mood), noun, plural, some_adjective(dice, noun))


def something(dice: Dice, verb: Verb, mood: Mood, among: Sequence[Noun] = ()) -> Phrase:
    """What a verb is done to."""
    noun = dice.pick(among or verb.objects)
    if verb.definite or noun.kind == "kin" or dice.chance(50):
        return known(dice, noun)
    return unknown(dice, noun, mood)


def anyone(dice: Dice, mood: Mood) -> Phrase:
    """A pronoun. Nobody asks what he does himself."""
    return dice.pick(PRONOUNS[1:] if mood == "question" else PRONOUNS)


def someone(dice: Dice, mood: Mood, animals: bool = False) -> Phrase:
    """Who does something. Nobody asks or denies that somebody unknown does it."""
    if dice.chance(50):
        return anyone(dice, mood)
    noun = dice.pick(BEINGS if animals else HUMANS)
    if mood == "statement" and noun.kind != "kin" and dice.chance(25):
        return unknown(dice, noun, mood)
    return known(dice, noun)


# Clauses


def clause(
    subject: Phrase, verb: Verb, mood: Mood, rest: Said, often: Said = NOTHING, pronoun: Said = NOTHING
) -> Said:
    """`often` stands beside the verb; `pronoun` after it in English, before it in French."""
    form = verb.french[subject.person]
    core = f"ne {pronoun.french} {form} pas" if mood == "negation" else f"{pronoun.french} {form}"
    opening = "est-ce que" if mood == "question" else ""
    return Said(
        f"{english_verb(subject, verb, mood, often.english)} {pronoun.english} {rest.english}",
        f"{opening} {subject.said.french} {core} {often.french} {rest.french}",
    )


def english_verb(subject: Phrase, verb: Verb, mood: Mood, often: str) -> str:
    """With its subject: English asks and denies with "do", but not of "be"."""
    who = subject.said.english
    if verb is BE:
        be = ("am", "are", "is", "are", "are")[subject.person]
        parts = {"statement": f"{who} {be}", "negation": f"{who} {be} not", "question": f"{be} {who}"}
        return f"{parts[mood]} {often}"
    third = subject.person == 2
    if mood == "statement":
        return f"{who} {often} {verb.english_third if third else verb.english}"
    do = "does" if third else "do"
    helped = f"{who} {do} not" if mood == "negation" else f"{do} {who}"
    return f"{helped} {often} {verb.english}"


def place(dice: Dice, preposition: Preposition, beside: Noun | None = None) -> Said:
    """Somewhere known. Who is "at" a place is not at "this" place: that would be "dans" in French."""
    noun = dice.pick([landmark for landmark in preposition.landmarks if landmark != beside])
    choices = (THE, THE, *POSSESSIVES) if noun in OWNED else (THE,)
    if preposition.french != "à":
        choices += (THIS,)
    landmark = build(choose(dice.pick(choices), noun, False), noun)
    return Said(preposition.english, preposition.french) + landmark.said


def timing(dice: Dice, mood: Mood) -> tuple[Said, Said]:
    """How often, when, or neither: nobody sometimes does a thing every day."""
    if mood == "statement" and dice.chance(15):
        return dice.pick(HOW_OFTEN), NOTHING
    return NOTHING, dice.pick(HABITS) if dice.chance(25) else NOTHING


def timed(dice: Dice, said: Said, when: Said, mood: Mood) -> Said:
    """With the time at the end or, in some statements, in front."""
    in_front = when is not NOTHING and mood == "statement" and dice.chance(30)
    return when + COMMA + said if in_front else said + when


def somewhere(dice: Dice, percent: int) -> Said:
    return place(dice, dice.pick((AT, IN))) if dice.chance(percent) else NOTHING


def fitting(subject: Phrase, *taken: Adjective | None) -> list[Adjective]:
    """What can be said of it with "is", and has not been said."""
    groups = {adjective.group for adjective in (subject.adjective, *taken) if adjective is not None}
    return [
        adjective
        for adjective in adjectives_of(subject.noun or SOMEBODY)
        if adjective.alone and adjective.group not in groups
    ]


def describe(
    subject: Phrase, mood: Mood, adjective: Adjective, when: Said = NOTHING, often: Said = NOTHING
) -> Said:
    agreed = Said(adjective.english, adjective.agree(subject.feminine, subject.plural))
    return clause(subject, BE, mood, agreed + when, often)


def refer(phrase: Phrase) -> Phrase:
    """The pronoun for a noun before it in the sentence."""
    if phrase.plural:
        said = Said("they", "elles" if phrase.feminine else "ils")
    elif phrase.noun in HUMANS:
        said = Said("she", "elle") if phrase.feminine else Said("he", "il")
    else:
        said = Said("it", "elle" if phrase.feminine else "il")
    return Phrase(said, phrase.person, phrase.feminine, phrase.noun)


def refer_as_object(phrase: Phrase) -> Said:
    if phrase.plural:
        return THEM
    if phrase.noun in HUMANS:
        return HER if phrase.feminine else HIM
    return Said("it", "la" if phrase.feminine else "le")


# Kinds of sentences


def described(dice: Dice) -> Pair:
    """She is tired. Is your car red?"""
    mood = dice.pick(MOODS)
    subject = anyone(dice, mood) if dice.chance(30) else known(dice, dice.pick(DESCRIBED))
    adjective = dice.pick(fitting(subject))
    often, when = timing(dice, mood) if adjective.passing else (NOTHING, NOTHING)
    when = dice.pick(STATES) if when is not NOTHING else NOTHING
    return finish(describe(subject, mood, adjective, when, often), mood == "question")


def located(dice: Dice) -> Pair:
    """The cat is under the table."""
    mood, preposition = dice.pick(MOODS), dice.pick(PREPOSITIONS)
    noun = dice.pick(preposition.there)
    subject = known(dice, noun)
    if noun in HUMANS and dice.chance(50):
        subject = anyone(dice, mood)
    when = dice.pick(STATES) if noun in BEINGS and dice.chance(25) else NOTHING
    return finish(clause(subject, BE, mood, place(dice, preposition, noun) + when), mood == "question")


def existing(dice: Dice) -> Pair:
    """There are some cats under the table. Il y a des chats sous la table."""
    mood, preposition = dice.pick(MOODS), dice.pick(PREPOSITIONS)
    noun = dice.pick([noun for noun in preposition.there if noun.kind != "kin"])
    thing = unknown(dice, noun, mood)
    be = "are" if thing.plural else "is"
    there = {
        "statement": Said(f"there {be}", "il y a"),
        "negation": Said(f"there {be} not", "il n'y a pas"),
        "question": Said(f"{be} there", "est-ce que il y a"),
    }[mood]
    return finish(there + thing.said + place(dice, preposition, noun), mood == "question")


def pointed_out(dice: Dice) -> Pair:
    """This is not a cat. Ce n'est pas un chat."""
    mood, noun = dice.pick(MOODS), dice.pick(TOPICS)
    thing = known(dice, noun, shown=True)
    if noun.english_plural and noun.kind != "kin" and dice.chance(40):
        thing = build(indefinite(noun, False, "statement"), noun, False, some_adjective(dice, noun))
    this, be, french = ("these", "are", "sont") if thing.plural else ("this", "is", "est")
    here = {
        "statement": Said(f"{this} {be}", "ce sont" if thing.plural else "c'est"),
        "negation": Said(f"{this} {be} not", f"ce ne {french} pas"),
        "question": Said(f"{be} {this}", "est-ce que ce sont" if thing.plural else "est-ce que c'est"),
    }[mood]
    return finish(here + thing.said, mood == "question")


def acted(dice: Dice) -> Pair:
    """My sister reads a letter in the garden."""
    mood, verb = dice.pick(MOODS), dice.pick(ACTIONS)
    subject, thing = someone(dice, mood, verb.animals), something(dice, verb, mood)
    if verb.still:
        return finish(clause(subject, verb, mood, thing.said), mood == "question")
    often, when = timing(dice, mood)
    where = somewhere(dice, 25) if thing.noun in MOVABLE else NOTHING
    said = clause(subject, verb, mood, thing.said + where, often)
    return finish(timed(dice, said, when, mood), mood == "question")


def acted_on(dice: Dice) -> Pair:
    """I do not see them. Je ne les vois pas."""
    mood, verb = dice.pick(MOODS), dice.pick(DONE_TO_PEOPLE)
    subject, whom = someone(dice, mood, verb.animals), dice.pick((HIM, HER, THEM))
    if verb.still:
        return finish(clause(subject, verb, mood, NOTHING, pronoun=whom), mood == "question")
    often, when = timing(dice, mood)
    said = clause(subject, verb, mood, somewhere(dice, 30), often, whom)
    return finish(timed(dice, said, when, mood), mood == "question")


def done(dice: Dice) -> Pair:
    """The children play in the park."""
    mood, verb = dice.pick(MOODS), dice.pick(DEEDS)
    subject, (often, when) = someone(dice, mood, verb.animals), timing(dice, mood)
    where = place(dice, IN) if dice.chance(50) else NOTHING
    return finish(timed(dice, clause(subject, verb, mood, where, often), when, mood), mood == "question")


def moved(dice: Dice) -> Pair:
    """She goes to the market. Elle va au marché."""
    mood = dice.pick(MOODS)
    verb, preposition = dice.pick(((GO, TO), (GO, TO), (COME, FROM), (LIVE, AT_HOME), (WORK, AT)))
    often, when = timing(dice, mood) if verb in (GO, WORK) else (NOTHING, NOTHING)
    said = clause(someone(dice, mood), verb, mood, place(dice, preposition), often)
    return finish(timed(dice, said, when, mood), mood == "question")


def turned_to(dice: Dice) -> Pair:
    """I give the book to the children. Je donne le livre aux enfants."""
    mood = dice.pick(MOODS)
    verb = dice.pick((GIVE, TALK))
    thing = something(dice, verb, mood).said if verb is GIVE else NOTHING
    rest = thing + Said("to", "à") + known(dice, dice.pick(HUMANS)).said
    often, when = timing(dice, mood)
    said = clause(someone(dice, mood), verb, mood, rest, often)
    return finish(timed(dice, said, when, mood), mood == "question")


def asked_where(dice: Dice) -> Pair:
    """Where is the cat? Where do you buy your bread?"""
    if dice.chance(50):
        thing = known(dice, dice.pick(LOST))
        be = Said("are", "sont") if thing.plural else Said("is", "est")
        return finish(Said("where", "où") + be + thing.said, asked=True)
    subject = someone(dice, "question")
    if dice.chance(40):
        said = clause(subject, dice.pick((LIVE, *DEEDS)), "question", NOTHING)
    else:
        verb = dice.pick([verb for verb in ACTIONS if not verb.still])
        said = clause(subject, verb, "question", known(dice, dice.pick(verb.objects)).said)
    return finish(Said("where", "où") + said, asked=True)


def joined(dice: Dice) -> Pair:
    """He drinks some water and she drinks some tea."""
    first = dice.pick(PRONOUNS)
    # "They" after a noun would take its gender.
    second = first if dice.chance(50) else dice.pick([one for one in PRONOUNS[:-1] if one != first])
    word, mood = dice.pick(JOINTS)
    way = dice.number() % 3
    if way == 0:
        one = dice.pick(fitting(first))
        said = describe(first, "statement", one)
        same = word is BUT and second is not first
        other = describe(second, mood, one if same else dice.pick(fitting(second, one)))
    elif way == 1:
        verb = dice.pick(DEEDS)
        said = clause(first, verb, "statement", place(dice, IN) if dice.chance(40) else NOTHING)
        other = clause(second, dice.pick([deed for deed in DEEDS if deed != verb]), mood, NOTHING)
    else:
        verb = dice.pick(ACTIONS)
        said = clause(first, verb, "statement", something(dice, verb, "statement").said)
        other = clause(second, verb, mood, something(dice, verb, mood).said)
    return finish(said + word + other)


def described_twice(dice: Dice) -> Pair:
    """The car is old, but it is not red. La voiture est vieille, mais elle n'est pas rouge."""
    subject = known(dice, dice.pick(DESCRIBED), plain=True)
    one = dice.pick(fitting(subject))
    word, mood = dice.pick(JOINTS)
    other = dice.pick(fitting(subject, one))
    return finish(describe(subject, "statement", one) + word + describe(refer(subject), mood, other))


def followed_up(dice: Dice) -> Pair:
    """I look for the key, but I do not find it. Je cherche la clé, mais je ne la trouve pas."""
    earlier, word, later = dice.pick(SEQUELS)
    verb, then = ACTION[earlier], ACTION[later]
    mood: Mood = "negation" if word is BUT else "statement"
    subject = dice.pick(PRONOUNS)
    both = [noun for noun in verb.objects if noun in then.objects]
    thing = something(dice, verb, "statement", both)
    said = clause(subject, verb, "statement", thing.said)
    return finish(said + word + clause(subject, then, mood, NOTHING, pronoun=refer_as_object(thing)))


KINDS: tuple[Callable[[Dice], Pair], ...] = (
    *(acted, acted, acted, acted_on, described, described, located, existing, pointed_out),
    *(done, moved, turned_to, asked_where, joined, described_twice, followed_up),
)


def sentence(dice: Dice) -> Pair:
    return dice.pick(KINDS)(dice)


def draw_distinct(draw: Callable[[Dice], Pair], count: int, dice: Dice) -> list[Pair]:
    """`count` pairs with different English, in the order in which they came."""
    found: dict[str, str] = {}
    tries = count // 8 + 1_000
    while len(found) < count:
        before = len(found)
        for _ in range(tries):
            found.setdefault(*draw(dice))
        if len(found) < count and len(found) - before < tries // 64:
            raise WrongInput(
                f"the phrasebook has hardly more than {len(found):,} different sentences, "
                f"and {count:,} are asked for; allowed: fewer"
            )
    return list(found.items())[:count]


class Phrasebook(Config):
    """Sentences of our own grammar. No English sentence stands twice, in one split or in two."""

    kind: Literal["phrasebook"] = "phrasebook"
    train: int = Field(30_000, ge=1)
    validation: int = Field(1_000, ge=1)
    test: int = Field(2_000, ge=1)

    def load(self, seed: int) -> Sentences:
        sizes = (self.train, self.validation, self.test)
        draw = generator(seed, "phrasebook")
        found = draw_distinct(sentence, sum(sizes), Dice(draw))
        # What is likely came first: in that order, training would have the short sentences.
        pairs = (found[i] for i in torch.randperm(len(found), generator=draw).tolist())
        splits = {name: list(islice(pairs, size)) for name, size in zip(SPLITS, sizes, strict=True)}
        return Sentences(splits, (f"{sum(sizes):,} sentence pairs of the phrasebook",))
