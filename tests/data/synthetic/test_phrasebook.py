"""The phrasebook: sentences are verified by rules that are independent of the grammar that generated them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise, product

import pytest
import torch
from support import must_fail

from limelight.data.synthetic import phrasebook as book
from limelight.data.synthetic.phrasebook import Phrasebook, grammar, lexicon, phrases
from limelight.data.synthetic.phrasebook.lexicon import FROM, IN, TO, Preposition
from limelight.data.synthetic.phrasebook.phrases import (
    EMPTY,
    HER,
    HIM,
    THE,
    THEM,
    THIS,
    Bilingual,
    Mood,
    Phrase,
    RandomChoices,
)
from limelight.data.text.translation_data import Pair
from limelight.errors import WrongInput
from limelight.randomness import generator

SMALL = Phrasebook(train=499, validation=101, test=103)
VOWEL = "[aeiouâàéèêîôûœ]|h(?!éros)"
CONSONANT = "[bcdfgjklmnpqrstvwxz]|héros"


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    """As many pairs as in the recipe."""
    return Phrasebook(train=30_000, validation=1, test=1).load(seed=5).splits["train"]


def french_words(text: str) -> list[str]:
    """The words between white space, apostrophes and punctuation."""
    return re.findall(r"\w+'?", text.lower())


def entries(table: str) -> list[list[str]]:
    return [entry.split() for entry in re.split(r"[|\n]", table.strip())]


def test_splits_have_the_configured_sizes_and_all_english_sentences_are_distinct() -> None:
    data = SMALL.load(seed=1)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 499, "validation": 101, "test": 103}
    every = [english for split in data.splits.values() for english, _ in split]
    assert len(set(every)) == len(every)
    assert data.notes == ("703 sentence pairs of the phrasebook",)


def test_the_seed_determines_the_pairs() -> None:
    torch.manual_seed(1)
    one = SMALL.load(seed=1)
    torch.manual_seed(2)
    assert SMALL.load(seed=1) == one
    assert SMALL.load(seed=2) != one


def test_held_out_sentences_are_as_long_as_training_sentences() -> None:
    data = Phrasebook(train=9_001, validation=1, test=3_001).load(seed=1)
    train, test = (
        sum(len(english.split()) for english, _ in data.splits[name]) / len(data.splits[name])
        for name in ("train", "test")
    )
    assert abs(train - test) < 0.15


def test_more_sentences_than_exist_are_an_error() -> None:
    few = [(f"{one} {other}.", "Oui.") for one, other in product("ABCDE", "FGHIJK")]
    rng = RandomChoices(generator(1, "few"))
    assert len(book.sample_distinct(lambda rng: rng.pick(few), 29, rng)) == 29
    with pytest.raises(WrongInput, match="the number of sentences is 31; allowed: about 30,"):
        book.sample_distinct(lambda rng: rng.pick(few), 31, rng)


def check_one_translation(pairs: Iterable[Pair]) -> None:
    found: dict[str, str] = {}
    for english, french in pairs:
        assert found.setdefault(english, french) == french, english


def test_an_english_sentence_always_has_the_same_translation() -> None:
    rng = RandomChoices(generator(7, "phrasebook"))
    drawn = [book.random_sentence(rng) for _ in range(60_000)]
    assert len(set(drawn)) < len(drawn)
    check_one_translation(drawn)
    must_fail(check_one_translation, [*drawn, (drawn[0][0], "Je ne sais pas.")])


def check_marks(pairs: Iterable[Pair]) -> None:
    for english, french in pairs:
        assert re.fullmatch(r"[A-Z][A-Za-z', ]*[.?]", english), english
        assert re.fullmatch(r"[A-ZÀ-Ü][a-zà-üœ', -]*(\.|\u202f\?)", french), french
        assert english.endswith("?") == french.endswith("?")
        assert not re.search(r"  | ,|,\w", english + french), french


def test_sentences_start_with_a_capital_and_end_with_a_punctuation_mark(pairs: list[Pair]) -> None:
    check_marks(pairs)
    for broken in (("Is it?", "Est-ce ?"), ("is it.", "C'est."), ("It is.", "C'est ,."), ("A.", "A\u202f?")):
        must_fail(check_marks, [broken])


MISSPELLED = (
    rf"\b(?:je|ne|de|le|la|que)\s(?:{VOWEL})",
    r"\b(?:de|à)\sles?\s",
    rf"\b(?:ce|ma|ta|sa|du|au)\s(?:{VOWEL})",
    rf"\b(?:un|le|ce|mon|ton|son|du|au)\s(?:beau|nouveau|vieux)\s(?:{VOWEL})",
    rf"\b(?:[ljdn]'|qu'|(?:cet|bel|nouvel|vieil)\s)(?:{CONSONANT})",
)


def check_spelling(sentences: Iterable[str]) -> None:
    for text in sentences:
        for rule in MISSPELLED:
            assert not re.search(rule, text.lower()), text


def test_elision_and_contraction_are_applied_exactly_where_required(pairs: list[Pair]) -> None:
    check_spelling(french for _, french in pairs)
    wrong = (
        "le ami,je ai,de le pain,à les enfants,à le marché,est-ce que il,ce homme,ma amie,sa école,du ami,"
    )
    wrong += "au hôtel,je ne aime pas,un vieux homme,un beau hôtel,un nouveau ami,l'héros,cet héros,d'pain,"
    wrong += "un bel chat,un vieil héros"
    for broken in wrong.split(","):
        must_fail(check_spelling, [broken])


NO_ENGLISH = (
    r"\ba [aeiou]|\ban [^aeiou]",
    r"(?<!does )\b(?:he|she|it) (?:do|are|am|have|go|see|take|want)\b",
    r"\b(?:i|you|we|they) (?:does|is|has|goes|sees|takes|wants)\b",
    r"\b(?:do|are) (?:he|she|it)\b|\b(?:does|is) (?:you|we|they)\b",
    r"\bthese \w+ (?:is|does)\b",
    r"\bnot (?:\w+ )?some\b",
)


def check_english(sentences: Iterable[str]) -> None:
    for text in sentences:
        for rule in NO_ENGLISH:
            assert not re.search(rule, text.lower()), text


def test_english_verbs_and_articles_have_the_correct_form(pairs: list[Pair]) -> None:
    check_english(english for english, _ in pairs)
    wrong = (
        "A egg.|An cat.|She do not sing.|They goes home.|Do he sing?|These cats is.|I do not want some bread."
    )
    for broken in wrong.split("|"):
        must_fail(check_english, [broken])


# French nouns, independent of the lexicon: gender, singular, plural. None of them is also a verb form.
FRENCH_NOUNS = """
m homme hommes|f femme femmes|f actrice actrices|m garçon garçons|f fille filles|m enfant enfants
m père -|f mère -|m frère frères|f sœur sœurs|m oncle oncles|f tante tantes|m ami amis|m voisin voisins
m médecin médecins|m professeur professeurs|m étudiant étudiants|m chat chats|m chien chiens
m cheval chevaux|m oiseau oiseaux|f vache vaches|m lapin lapins|m âne ânes|m animal animaux|f clé clés
m sac sacs|f assiette assiettes|f lampe lampes|m outil outils|m ordinateur ordinateurs|f boîte boîtes
m couteau couteaux|m cadeau cadeaux|f horloge horloges|m tableau tableaux|f voiture voitures
m vélo vélos|m bateau bateaux|f table tables|f chaise chaises|f fenêtre fenêtres|m manteau manteaux
m chapeau chapeaux|f robe robes|f chemise chemises|m livre livres|m journal journaux|f lettre lettres
f histoire histoires|f chanson chansons|m arbre arbres|f fleur fleurs|m pain -|m fromage -|f viande -
f soupe -|f pomme pommes|f orange oranges|m œuf œufs|m gâteau gâteaux|f eau -|m lait -|m vin -|m argent -
f maison maisons|m appartement appartements|f ville villes|m jardin jardins|f rue rues|m parc parcs
m hôtel hôtels|f école écoles|f gare gares|m hôpital hôpitaux|f église églises
"""
# Masculine, feminine, masculine plural, feminine plural.
FRENCH_ADJECTIVES = """
petit petite petits petites|grand grande grands grandes|vieux vieille vieux vieilles|vieil - - -
beau belle beaux belles|bel - - -|nouveau nouvelle nouveaux nouvelles|nouvel - - -
bon bonne bons bonnes|noir noire noirs noires|blanc blanche blancs blanches|vert verte verts vertes
bleu bleue bleus bleues|italien italienne italiens italiennes|français française français françaises
américain américaine américains américaines|heureux heureuse heureux heureuses
fatigué fatiguée fatigués fatiguées|cher chère chers chères|lourd lourde lourds lourdes
gentil gentille gentils gentilles|frais fraîche frais fraîches|froid froide froids froides
délicieux délicieuse délicieux délicieuses|cassé cassée cassés cassées
intelligent intelligente intelligents intelligentes
"""
FRENCH_DETERMINERS = {
    word: forms
    for words, forms in (
        ("le un ce cet du au", {"m"}),
        ("la une cette ma ta sa", {"f"}),
        ("mon ton son l'", {"m", "f"}),
        ("les des ces mes tes ses aux", {"mp", "fp"}),
    )
    for word in words.split()
}


def genders() -> tuple[dict[str, str], dict[str, set[str]]]:
    """The gender and number of each noun, and those that each form of an adjective agrees with."""
    nouns: dict[str, str] = {}
    for gender, singular, plural in entries(FRENCH_NOUNS):
        nouns |= {singular: gender, plural: f"{gender}p"}
    adjectives: dict[str, set[str]] = {}
    for forms in entries(FRENCH_ADJECTIVES):
        for gender, word in zip(("m", "f", "mp", "fp"), forms, strict=True):
            adjectives.setdefault(word, set()).add(gender)
    return nouns, adjectives


def check_agreement(sentences: Iterable[str]) -> int:
    """The number of words that agree with a noun next to them."""
    nouns, adjectives = genders()
    agreeing = {**adjectives, **FRENCH_DETERMINERS}
    seen = 0
    for text in sentences:
        words = ["", "", *french_words(text), ""]
        for earlier, before, word, after in zip(words, words[1:], words[2:], words[3:], strict=False):
            if word in nouns:
                beside = [before] if before in agreeing else []
                beside += [after] if after in adjectives else []
                # The determiner precedes the adjective.
                beside += [earlier] if before in adjectives and earlier in FRENCH_DETERMINERS else []
                for other in beside:
                    assert nouns[word] in agreeing[other], f"{other} beside {word}: {text}"
                    seen += 1
    return seen


def test_determiners_and_adjectives_agree_with_their_noun(pairs: list[Pair]) -> None:
    assert check_agreement(french for _, french in pairs) > 30_000
    wrong = "Le fille dort.|Un belle voiture.|Une vieux ami.|Une pomme vert.|Ces grand chats.|Ma oncle rit."
    for broken in wrong.split("|"):
        must_fail(check_agreement, [broken])


def check_predicates(sentences: Iterable[str]) -> int:
    """The number of predicate adjectives that agree with their subject."""
    nouns, adjectives = genders()
    subjects = {**nouns, "il": "m", "elle": "f", "ils": "mp", "elles": "fp"}
    be = r"(?:est|sont|n'est pas|ne sont pas)"
    pattern = re.compile(rf"(?:^\w+[ ']|\best-ce que \w+[ ']|\b(?=ils?\b|elles?\b))(\w+) {be} (\w+)")
    seen = 0
    for text in sentences:
        for subject, adjective in pattern.findall(text.lower()):
            if subject in subjects and adjective in adjectives:
                assert subjects[subject] in adjectives[adjective], text
                seen += 1
    return seen


def test_predicate_adjectives_agree_with_the_subject(pairs: list[Pair]) -> None:
    assert check_predicates(french for _, french in pairs) > 2_000
    wrong = "Elle est fatigué.|La voiture est noir.|Mes robes ne sont pas vertes, mais elles sont beaux."
    for broken in wrong.split("|"):
        must_fail(check_predicates, [broken])


PERSONS = {"je": 0, "j'": 0, "tu": 1, "il": 2, "elle": 2, "nous": 3, "ils": 4, "elles": 4}
CONJUGATED = """
suis es est sommes sont|ai as a avons ont|vais vas va allons vont|mange manges mange mangeons mangent
vois vois voit voyons voient|aime aimes aime aimons aiment|habite habites habite habitons habitent
prends prends prend prenons prennent|veux veux veut voulons veulent|lis lis lit lisons lisent
achète achètes achète achetons achètent|écoute écoutes écoute écoutons écoutent
donne donnes donne donnons donnent|viens viens vient venons viennent|bois bois boit buvons boivent
"""


def check_conjugation(sentences: Iterable[str]) -> int:
    forms: dict[str, set[int]] = {}
    for conjugated in entries(CONJUGATED):
        for person, form in enumerate(conjugated):
            forms.setdefault(form, set()).add(person)
    seen = 0
    for text in sentences:
        words = [
            word for word in french_words(text) if word not in ("ne", "n'", "le", "la", "les", "l'", "y")
        ]
        for pronoun, verb in pairwise(words):
            if pronoun in PERSONS and verb in forms:
                assert PERSONS[pronoun] in forms[verb], text
                seen += 1
    return seen


def test_verbs_agree_with_their_pronoun(pairs: list[Pair]) -> None:
    assert check_conjugation(french for _, french in pairs) > 5_000
    for broken in ("Je est ici.", "Nous mangent du pain.", "Elles ne les voit pas.", "Tu n'a pas de pain."):
        must_fail(check_conjugation, [broken])


ME, YOU, HE, SHE, WE, THEY = phrases.PRONOUNS
NOUN = {noun.english: noun for noun in lexicon.NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in lexicon.ADJECTIVES}
OTHERS = (lexicon.GO, lexicon.COME, lexicon.LIVE, lexicon.TALK)
VERB = {verb.english: verb for verb in (*lexicon.TRANSITIVE_VERBS, *lexicon.INTRANSITIVE_VERBS, *OTHERS)}
MY = phrases.POSSESSIVES[0]


def the(words: str, determiner: phrases.Determiner = THE, plural: bool = False) -> Phrase:
    *adjective, noun = words.split()
    article = grammar.inflect_determiner(determiner, NOUN[noun], plural)
    return grammar.noun_phrase(article, NOUN[noun], plural, ADJECTIVE[adjective[0]] if adjective else None)


def some(words: str, mood: Mood = "statement", plural: bool = False) -> Bilingual:
    *adjective, noun = words.split()
    article = grammar.indefinite_determiner(NOUN[noun], plural, mood)
    return grammar.noun_phrase(
        article, NOUN[noun], plural, ADJECTIVE[adjective[0]] if adjective else None
    ).text


def by(preposition: Preposition, thing: Phrase) -> Bilingual:
    return Bilingual(preposition.english, preposition.french) + thing.text


def clause_pair(
    who: Phrase, verb: str, rest: Bilingual = EMPTY, mood: Mood = "statement", whom: Bilingual = EMPTY
) -> Pair:
    return phrases.finish(grammar.clause(who, VERB[verb], mood, rest, pronoun=whom), mood == "question")


def description_pair(who: Phrase, adjective: str, mood: Mood = "statement") -> Pair:
    return phrases.finish(grammar.predicate_clause(who, mood, ADJECTIVE[adjective]), mood == "question")


NEIGHBOURS_CAT = grammar.possessive_phrase(the("neighbour"), NOUN["cat"])
RED_CAR = grammar.possessive_phrase(the("friend", MY), NOUN["car"], adjective=ADJECTIVE["red"])
TEACHERS_DOG = grammar.possessive_phrase(the("teacher", plural=True), NOUN["dog"])
CHILDRENS_KEY = grammar.possessive_phrase(the("child", plural=True), NOUN["key"])
EXAMPLES: list[tuple[Pair, str, str]] = [
    (description_pair(SHE, "tired"), "She is tired.", "Elle est fatiguée."),
    (
        description_pair(the("girl", plural=True), "happy"),
        "The girls are happy.",
        "Les filles sont heureuses.",
    ),
    (description_pair(the("hero"), "old"), "The hero is old.", "Le héros est vieux."),
    (description_pair(the("hotel", THIS), "beautiful"), "This hotel is beautiful.", "Cet hôtel est beau."),
    (description_pair(YOU, "sick", "question"), "Are you sick?", "Est-ce que tu es malade\u202f?"),
    (description_pair(ME, "Italian", "negation"), "I am not Italian.", "Je ne suis pas italien."),
    (description_pair(grammar.subject_pronoun(the("car")), "old"), "It is old.", "Elle est vieille."),
    (
        description_pair(grammar.subject_pronoun(the("key", plural=True)), "new"),
        "They are new.",
        "Elles sont nouvelles.",
    ),
    (clause_pair(WE, "eat", some("bread")), "We eat some bread.", "Nous mangeons du pain."),
    (clause_pair(SHE, "drink", some("water")), "She drinks some water.", "Elle boit de l'eau."),
    (
        clause_pair(ME, "have", some("bread", "negation"), "negation"),
        "I do not have any bread.",
        "Je n'ai pas de pain.",
    ),
    (
        clause_pair(HE, "want", some("egg", "negation"), "negation"),
        "He does not want an egg.",
        "Il ne veut pas d'œuf.",
    ),
    (clause_pair(ME, "see", the("cat").text, "negation"), "I do not see the cat.", "Je ne vois pas le chat."),
    (
        clause_pair(YOU, "have", some("small cat", plural=True)),
        "You have some small cats.",
        "Tu as de petits chats.",
    ),
    (clause_pair(ME, "see", some("old man")), "I see an old man.", "Je vois un vieil homme."),
    (
        clause_pair(THEY, "see", some("beautiful tree")),
        "They see a beautiful tree.",
        "Ils voient un bel arbre.",
    ),
    (clause_pair(ME, "help", the("new friend", MY).text), "I help my new friend.", "J'aide mon nouvel ami."),
    (clause_pair(WE, "love", the("school", MY).text), "We love my school.", "Nous aimons mon école."),
    (clause_pair(HE, "buy", some("red car")), "He buys a red car.", "Il achète une voiture rouge."),
    (clause_pair(WE, "buy", some("cake", plural=True)), "We buy some cakes.", "Nous achetons des gâteaux."),
    (clause_pair(SHE, "sing", mood="question"), "Does she sing?", "Est-ce qu'elle chante\u202f?"),
    (clause_pair(ME, "see", whom=HIM), "I see him.", "Je le vois."),
    (clause_pair(ME, "love", whom=HER), "I love her.", "Je l'aime."),
    (clause_pair(ME, "see", mood="negation", whom=THEM), "I do not see them.", "Je ne les vois pas."),
    (
        clause_pair(YOU, "know", mood="question", whom=HER),
        "Do you know her?",
        "Est-ce que tu la connais\u202f?",
    ),
    (clause_pair(ME, "go", by(TO, the("market"))), "I go to the market.", "Je vais au marché."),
    (clause_pair(SHE, "go", by(TO, the("hotel"))), "She goes to the hotel.", "Elle va à l'hôtel."),
    (clause_pair(WE, "come", by(FROM, the("market"))), "We come from the market.", "Nous venons du marché."),
    (clause_pair(THEY, "live", by(IN, the("town"))), "They live in the town.", "Ils habitent dans la ville."),
    (
        clause_pair(YOU, "talk", by(TO, the("boy", plural=True))),
        "You talk to the boys.",
        "Tu parles aux garçons.",
    ),
    (clause_pair(NEIGHBOURS_CAT, "sleep"), "The neighbour's cat sleeps.", "Le chat du voisin dort."),
    (clause_pair(TEACHERS_DOG, "run"), "The teachers' dog runs.", "Le chien des professeurs court."),
    (
        clause_pair(WE, "find", CHILDRENS_KEY.text),
        "We find the children's key.",
        "Nous trouvons la clé des enfants.",
    ),
    (
        description_pair(RED_CAR, "clean"),
        "My friend's red car is clean.",
        "La voiture rouge de mon ami est propre.",
    ),
]


def check_examples(examples: Iterable[tuple[Pair, str, str]]) -> None:
    for text, english, french in examples:
        assert text == (english, french)


def test_each_grammar_rule_gives_a_correct_translation() -> None:
    check_examples(EXAMPLES)
    must_fail(check_examples, [(EXAMPLES[0][0], "She is tired.", "Elle est fatigué.")])


KINDS: dict[Callable[[RandomChoices], Pair], tuple[str, str]] = {
    book.two_descriptions: (
        r"The (car|table|key|lamp) is \w+ and it is \w+\.",
        r"La (voiture|table|clé|lampe) est \w+ et elle est \w+\.",
    ),
    book.two_actions: (
        r"(He|She) (takes|buys) some (meat|soup) and .*",
        r"(Il|Elle) (prend|achète) de la (viande|soupe) et (il|elle) la mange\.",
    ),
    book.existence: (r"There is not an? .*", r"Il n'y a pas d[e'].*"),
    book.identification: (r"This is not an? .*", r"Ce n'est pas une? .*"),
    book.where_question: (r"Where is the (cat|book)\?", r"Où est le (chat|livre)\u202f\?"),
    book.joined_clauses: (
        r"I am tired, but she is not tired\.",
        r"Je suis fatigué, mais elle n'est pas fatiguée\.",
    ),
    book.location: (r"The .* is near the (market|park)\.", r"L.* est près du (marché|parc)\."),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_sentence_follows_its_pattern_in_both_languages(
    kind: Callable[[RandomChoices], Pair],
) -> None:
    english, french = KINDS[kind]
    rng = RandomChoices(generator(3, "kinds"))
    found = [pair for pair in (kind(rng) for _ in range(20_000)) if re.fullmatch(english, pair[0])]
    assert found
    for pair in found:
        assert re.fullmatch(french, pair[1]), pair


PHENOMENA = {
    "negation": r"\bn(?:e |')",
    "negated partitive": r"\bpas (?:de |d')",
    "partitive": r"\b(?:mange|veut|boit|prend|achète|y a)\w* (?:du |de la |de l')",
    "de before an adjective": r"\bde (?:petits|grande?s|vieux|vieilles|beaux|belles|bons|bonnes)\b",
    "object pronoun": r"\b(?:je|tu|ils?|elles?|nous|ne) (?:le |la |les |l')",
    "elision": r"\b(?:[ljdn]|qu)'",
    "contraction": r"\b(?:du|au|aux)\b",
    "question": r"\best-ce qu",
    "where": r"^où\b",
    "they, feminine": r"\belles\b",
    "there is": r"\by a\b",
    "masculine before a vowel": r"\b(?:cet|bel|nouvel|vieil)\b",
    "joined by and": r" et ",
    "joined by but": r", mais ",
    "aspirated h": r"\b(?:le|ce|du|au|de) héros\b",
}


def check_phenomena(sentences: list[str]) -> None:
    for name, pattern in PHENOMENA.items():
        share = sum(bool(re.search(pattern, text)) for text in sentences) / len(sentences)
        assert share > 0.004, f"{name}: {share:.2%}"


def test_each_grammatical_phenomenon_occurs(pairs: list[Pair]) -> None:
    french = [french.lower() for _, french in pairs]
    check_phenomena(french)
    must_fail(check_phenomena, [text for text in french if "elles" not in text])


def check_words(pairs: list[Pair]) -> None:
    often = Counter(word for english, _ in pairs for word in re.findall(r"[a-z]+", english.lower()))
    assert 250 <= len(often) <= 350
    assert min(often.values()) >= 40, often.most_common()[-9:]


def test_the_vocabulary_is_small_and_each_word_occurs_often(pairs: list[Pair]) -> None:
    check_words(pairs)
    must_fail(check_words, pairs[:1_000])


def test_sentences_have_many_different_lengths(pairs: list[Pair]) -> None:
    lengths = Counter(len(english.split()) for english, _ in pairs)
    assert min(lengths) >= 2
    assert 13 <= max(lengths) <= 18
    assert all(lengths[length] > 0.03 * len(pairs) for length in range(4, 12))
