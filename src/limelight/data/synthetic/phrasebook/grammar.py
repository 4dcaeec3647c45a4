"""Grammar of the phrasebook: noun phrases and clauses in English and French."""

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
    EMPTY,
    FREQUENCIES,
    HABITUAL_TIMES,
    HER,
    HIM,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THEM,
    THIS,
    Bilingual,
    Determiner,
    Mood,
    Phrase,
    RandomChoices,
    starts_with_vowel_sound,
)

HUMANS, LIVING = nouns(PEOPLE), nouns(f"{PEOPLE} animal")
(SOMEBODY,) = nouns("brother")  # all adjectives that apply to this noun apply to every person


def noun_phrase(
    determiner: Bilingual,
    noun: Noun,
    plural: bool = False,
    adjective: Adjective | None = None,
    owner: str = "",
) -> Phrase:
    """A noun with determiner and adjective, which agree with it. `owner` follows the noun in French."""
    english, french = noun.forms(plural)
    article = determiner.french
    if adjective is not None:
        english = f"{adjective.english} {english}"
        agreed = adjective.agree(noun.feminine, plural)
        if not adjective.before_vowel:
            french = f"{french} {agreed}"
        else:
            if not plural and not noun.feminine and starts_with_vowel_sound(french):
                agreed = adjective.before_vowel
            article = "de" if article == "de les" else article
            french = f"{agreed} {french}"
    text = Bilingual(f"{determiner.english} {english}", f"{article} {french} {owner}")
    return Phrase(text, 4 if plural else 2, noun.feminine, noun, adjective)


def inflect_determiner(determiner: Determiner, noun: Noun, plural: bool) -> Bilingual:
    """The form of a determiner that agrees with a noun."""
    return Bilingual(determiner[plural], determiner[4] if plural else determiner[2 + noun.feminine])


def indefinite_determiner(noun: Noun, plural: bool, mood: Mood) -> Bilingual:
    """A, some, or any (in questions and negations); in French "de" in negations."""
    one = bool(noun.english_plural) and not plural
    english = "a" if one else "some" if mood == "statement" else "any"
    if mood == "negation":
        return Bilingual(english, "de")
    if one:
        return Bilingual(english, "une" if noun.feminine else "un")
    return Bilingual(english, "de les" if plural else "de la" if noun.feminine else "de le")


def random_plural(rng: RandomChoices, noun: Noun) -> bool:
    """Whether to use the plural, if the noun has one."""
    return bool(noun.english_plural) and rng.chance(45)


def random_adjective(rng: RandomChoices, noun: Noun) -> Adjective | None:
    """An adjective that fits the noun, or none. Father and mother get none."""
    candidates = adjectives_of(noun) if noun.english_plural or noun.kind != "kin" else ()
    return rng.pick(candidates) if candidates and rng.chance(35) else None


def definite_determiners(noun: Noun, no_demonstrative: bool = False) -> tuple[Determiner, ...]:
    """The possible definite determiners; after "this is" there is no second "this"."""
    if noun.kind == "kin":
        return POSSESSIVES
    owners = POSSESSIVES if noun in OWNED else ()
    return (THE, THE, *owners) if no_demonstrative else (THE, THE, THIS, *owners)


def possessive_phrase(
    owner: Phrase, noun: Noun, plural: bool = False, adjective: Adjective | None = None
) -> Phrase:
    """My friend's red car. La voiture rouge de mon ami."""
    english, french = owner.text.english, owner.text.french
    mark = "'" if owner.plural and english.endswith("s") else "'s"
    article = inflect_determiner(THE, noun, plural).french
    return noun_phrase(Bilingual(english + mark, article), noun, plural, adjective, f"de {french}")


def definite_phrase(
    rng: RandomChoices, noun: Noun, without_adjective: bool = False, no_demonstrative: bool = False
) -> Phrase:
    """The cat, this cat, my cat, my friend's cat."""
    plural, adjective = random_plural(rng, noun), None if without_adjective else random_adjective(rng, noun)
    if noun in OWNED and rng.chance(15):
        owner = rng.pick([person for person in HUMANS if person != noun])
        many = random_plural(rng, owner)
        determiner = rng.pick(definite_determiners(owner, no_demonstrative))
        owner_phrase = noun_phrase(inflect_determiner(determiner, owner, many), owner, many)
        return possessive_phrase(owner_phrase, noun, plural, adjective)
    determiner = rng.pick(definite_determiners(noun, no_demonstrative))
    return noun_phrase(inflect_determiner(determiner, noun, plural), noun, plural, adjective)


def indefinite_phrase(rng: RandomChoices, noun: Noun, mood: Mood) -> Phrase:
    """A cat, some cats, some milk."""
    plural = random_plural(rng, noun)
    return noun_phrase(indefinite_determiner(noun, plural, mood), noun, plural, random_adjective(rng, noun))


def random_object(rng: RandomChoices, verb: Verb, mood: Mood, among: Sequence[Noun] = ()) -> Phrase:
    """A random object of a verb."""
    noun = rng.pick(among or verb.objects)
    if verb.definite or noun.kind == "kin" or rng.chance(50):
        return definite_phrase(rng, noun)
    return indefinite_phrase(rng, noun, mood)


def random_pronoun(rng: RandomChoices, mood: Mood) -> Phrase:
    """A subject pronoun; there are no questions in the first person singular."""
    return rng.pick(PRONOUNS[1:] if mood == "question" else PRONOUNS)


def random_subject(rng: RandomChoices, mood: Mood, animals: bool = False) -> Phrase:
    """A random subject; it is indefinite ("a man") only in statements."""
    if rng.chance(50):
        return random_pronoun(rng, mood)
    noun = rng.pick(LIVING if animals else HUMANS)
    if mood == "statement" and noun.kind != "kin" and rng.chance(25):
        return indefinite_phrase(rng, noun, mood)
    return definite_phrase(rng, noun)


# Clauses


def clause(
    subject: Phrase,
    verb: Verb,
    mood: Mood,
    rest: Bilingual,
    frequency: Bilingual = EMPTY,
    pronoun: Bilingual = EMPTY,
) -> Bilingual:
    """A clause. `pronoun` is an object pronoun; `frequency` is placed next to the verb."""
    form = verb.french[subject.person]
    core = f"ne {pronoun.french} {form} pas" if mood == "negation" else f"{pronoun.french} {form}"
    opening = "est-ce que" if mood == "question" else ""
    return Bilingual(
        f"{english_verb_phrase(subject, verb, mood, frequency.english)} {pronoun.english} {rest.english}",
        f"{opening} {subject.text.french} {core} {frequency.french} {rest.french}",
    )


def english_verb_phrase(subject: Phrase, verb: Verb, mood: Mood, frequency: str) -> str:
    """Subject and verb; questions and negations use "do", except with "be"."""
    who = subject.text.english
    if verb is BE:
        be = ("am", "are", "is", "are", "are")[subject.person]
        parts = {"statement": f"{who} {be}", "negation": f"{who} {be} not", "question": f"{be} {who}"}
        return f"{parts[mood]} {frequency}"
    third = subject.person == 2
    if mood == "statement":
        return f"{who} {frequency} {verb.english_third if third else verb.english}"
    do = "does" if third else "do"
    start = f"{who} {do} not" if mood == "negation" else f"{do} {who}"
    return f"{start} {frequency} {verb.english}"


def place_phrase(rng: RandomChoices, preposition: Preposition, beside: Noun | None = None) -> Bilingual:
    """A definite place. "At this place" is avoided: it would be "dans" in French."""
    noun = rng.pick([landmark for landmark in preposition.landmarks if landmark != beside])
    choices = (THE, THE, *POSSESSIVES) if noun in OWNED else (THE,)
    if preposition.french != "à":
        choices += (THIS,)
    landmark = noun_phrase(inflect_determiner(rng.pick(choices), noun, False), noun)
    return Bilingual(preposition.english, preposition.french) + landmark.text


def random_time(rng: RandomChoices, mood: Mood) -> tuple[Bilingual, Bilingual]:
    """A frequency such as "often", a time such as "every day", or neither."""
    if mood == "statement" and rng.chance(15):
        return rng.pick(FREQUENCIES), EMPTY
    return EMPTY, rng.pick(HABITUAL_TIMES) if rng.chance(25) else EMPTY


def add_time(rng: RandomChoices, text: Bilingual, time: Bilingual, mood: Mood) -> Bilingual:
    """Add a time at the end or, in some statements, at the beginning."""
    in_front = time is not EMPTY and mood == "statement" and rng.chance(30)
    return time + COMMA + text if in_front else text + time


def random_place(rng: RandomChoices, percent: int) -> Bilingual:
    """A place with a probability of `percent`, otherwise an empty text."""
    return place_phrase(rng, rng.pick((AT, IN))) if rng.chance(percent) else EMPTY


def predicate_adjectives(subject: Phrase, *taken: Adjective | None) -> list[Adjective]:
    """Adjectives that can follow "is", from other groups than those already used."""
    groups = {adjective.group for adjective in (subject.adjective, *taken) if adjective is not None}
    return [
        adjective
        for adjective in adjectives_of(subject.noun or SOMEBODY)
        if adjective.predicative and adjective.group not in groups
    ]


def predicate_clause(
    subject: Phrase, mood: Mood, adjective: Adjective, time: Bilingual = EMPTY, frequency: Bilingual = EMPTY
) -> Bilingual:
    """A clause with "be" and an adjective: the car is red."""
    agreed = Bilingual(adjective.english, adjective.agree(subject.feminine, subject.plural))
    return clause(subject, BE, mood, agreed + time, frequency)


def subject_pronoun(phrase: Phrase) -> Phrase:
    """The subject pronoun that refers to a noun phrase: he, she, it, they."""
    if phrase.plural:
        text = Bilingual("they", "elles" if phrase.feminine else "ils")
    elif phrase.noun in HUMANS:
        text = Bilingual("she", "elle") if phrase.feminine else Bilingual("he", "il")
    else:
        text = Bilingual("it", "elle" if phrase.feminine else "il")
    return Phrase(text, phrase.person, phrase.feminine, phrase.noun)


def object_pronoun(phrase: Phrase) -> Bilingual:
    """The object pronoun that refers to a noun phrase: him, her, it, them."""
    if phrase.plural:
        return THEM
    if phrase.noun in HUMANS:
        return HER if phrase.feminine else HIM
    return Bilingual("it", "la" if phrase.feminine else "le")
