"""Phrases and clauses that say the same in English and in French."""

from collections.abc import Sequence

from limelight.data.synthetic.phrasebook.lexicon import (
    AT,
    BE,
    IN,
    OWNED,
    PEOPLE,
    Adjective,
    Noun,
    Preposition,
    Verb,
    adjectives_of,
    nouns,
)
from limelight.data.synthetic.phrasebook.phrases import (
    COMMA,
    HABITS,
    HER,
    HIM,
    HOW_OFTEN,
    NOTHING,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THEM,
    THIS,
    Determiner,
    Dice,
    Mood,
    Phrase,
    Said,
    sounds_open,
)

HUMANS, BEINGS = nouns(PEOPLE), nouns(f"{PEOPLE} animal")
(SOMEBODY,) = nouns("brother")  # what can be said of him can be said of everybody


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
