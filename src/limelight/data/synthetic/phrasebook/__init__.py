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

from collections.abc import Callable
from itertools import islice
from typing import Literal

import torch
from pydantic import Field

from limelight.config import Config
from limelight.data.dataset import SPLITS
from limelight.data.synthetic.phrasebook.grammar import (
    BEINGS,
    HUMANS,
    SOMEBODY,
    anyone,
    build,
    clause,
    describe,
    fitting,
    indefinite,
    known,
    place,
    refer,
    refer_as_object,
    some_adjective,
    someone,
    something,
    somewhere,
    timed,
    timing,
    unknown,
)
from limelight.data.synthetic.phrasebook.lexicon import (
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
    PEOPLE,
    PREPOSITIONS,
    SIGHTS,
    TALK,
    TO,
    WORK,
    adjectives_of,
    nouns,
)
from limelight.data.synthetic.phrasebook.phrases import (
    AND,
    BUT,
    HER,
    HIM,
    JOINTS,
    MOODS,
    NOTHING,
    PRONOUNS,
    STATES,
    THEM,
    Dice,
    Mood,
    Said,
    finish,
)
from limelight.data.text.translation_data import Pair, Sentences
from limelight.errors import WrongInput
from limelight.randomness import generator

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


EXAMPLE = "She does not wear her red shirt."  # words cross, and "not" is said twice


class Phrasebook(Config):
    """Sentences of our own grammar. No English sentence stands twice, in one split or in two."""

    kind: Literal["phrasebook"] = "phrasebook"
    train: int = Field(30_000, ge=1, le=1_000_000)
    validation: int = Field(1_000, ge=1, le=1_000_000)
    test: int = Field(2_000, ge=1, le=1_000_000)

    def load(self, seed: int) -> Sentences:
        sizes = (self.train, self.validation, self.test)
        draw = generator(seed, "phrasebook")
        found = draw_distinct(sentence, sum(sizes), Dice(draw))
        # What is likely came first: in that order, training would have the short sentences.
        pairs = (found[i] for i in torch.randperm(len(found), generator=draw).tolist())
        splits = {name: list(islice(pairs, size)) for name, size in zip(SPLITS, sizes, strict=True)}
        return Sentences(splits, (f"{sum(sizes):,} sentence pairs of the phrasebook",), EXAMPLE)
