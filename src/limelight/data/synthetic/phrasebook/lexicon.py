"""The words of the phrasebook: nouns by kind, and adjectives and verbs with the nouns that they combine with.

A list of nouns contains kinds ("animal") and single nouns ("film"); "-key" excludes a noun. Combinations with
a special meaning are excluded: a "grande école" is not a big school.
"""

from functools import cache
from typing import NamedTuple


class Noun(NamedTuple):
    """A noun in both languages, with its French gender."""

    english: str
    english_plural: str  # empty for uncountable nouns
    french: str
    french_plural: str
    feminine: bool
    kind: str

    def forms(self, plural: bool) -> tuple[str, str]:
        """The English and the French form."""
        return (self.english_plural, self.french_plural) if plural else (self.english, self.french)


class Adjective(NamedTuple):
    """An adjective with its French forms and the nouns that it can describe."""

    english: str
    french: tuple[str, ...]  # masculine, feminine, masculine plural, feminine plural
    nouns: tuple[Noun, ...]
    group: str  # adjectives of one group exclude each other: small, big
    before_vowel: str = ""  # masculine form before a vowel, for adjectives that precede the noun
    predicative: bool = True  # can follow "is"
    temporary: bool = False  # can be combined with a time

    def agree(self, feminine: bool, plural: bool) -> str:
        """The French form for this gender and number."""
        return self.french[2 * plural + feminine]


class Verb(NamedTuple):
    """A verb with its forms and possible objects."""

    english: str
    english_third: str  # third person singular
    french: tuple[str, ...]  # je, tu, il, nous, ils
    objects: tuple[Noun, ...] = ()
    animals: bool = False  # animals can be the subject
    definite: bool = False  # the object is always definite: I help the boy
    stative: bool = False  # without time and place: I know him


PEOPLE = "adult child kin fellow"
PLACES = "home room outdoors spot"

# English, French, gender; irregular plurals after a slash, with a dash if there is no plural.
_NOUNS = {
    "adult": "man/men homme m, woman/women femme f, actress/actresses actrice f",
    "child": "boy garçon m, girl fille f, child/children enfant m",
    "kin": "father/- père m, mother/- mère f, brother frère m, sister sœur f, uncle oncle m, aunt tante f",
    "fellow": "friend ami m, neighbour voisin m, teacher professeur m, doctor médecin m, "
    "student étudiant m, hero/heroes héros/héros m",
    "animal": "cat chat m, dog chien m, horse cheval/chevaux m, bird oiseau/oiseaux m, cow vache f, "
    "rabbit lapin m, donkey âne m, mouse/mice souris/souris f, animal animal/animaux m",
    "thing": "key clé f, bag sac m, plate assiette f, lamp lampe f, umbrella parapluie m, tool outil m, "
    "computer ordinateur m, phone téléphone m, box/boxes boîte f, knife/knives couteau/couteaux m, "
    "gift cadeau/cadeaux m, clock horloge f, painting tableau/tableaux m",
    "vehicle": "car voiture f, bike vélo m, boat bateau/bateaux m",
    "furniture": "table table f, chair chaise f, bed lit m",
    "opening": "door porte f, window fenêtre f",
    "clothes": "coat manteau/manteaux m, hat chapeau/chapeaux m, dress/dresses robe f, shirt chemise f, "
    "skirt jupe f",
    "text": "book livre m, newspaper journal/journaux m, letter lettre f",
    "art": "story/stories histoire f, song chanson f, film film m",
    "plant": "tree arbre m, flower fleur f",
    "food": "bread/- pain m, cheese/- fromage m, meat/- viande f, rice/- riz m, soup/- soupe f, "
    "butter/- beurre m, apple pomme f, orange orange f, egg œuf m, cake gâteau/gâteaux m, pear poire f, "
    "tomato/tomatoes tomate f",
    "drink": "water/- eau f, milk/- lait m, coffee/- café m, tea/- thé m, wine/- vin m",
    "money": "money/- argent m",
    "home": "house maison f, apartment appartement m, village village m, town ville f",
    "room": "garden jardin m, kitchen cuisine f",
    "outdoors": "street rue f, park parc m",
    "spot": "market marché m, hotel hôtel m, school école f, station gare f, beach/beaches plage f, "
    "restaurant restaurant m, office bureau/bureaux m, hospital hôpital/hôpitaux m, museum musée m, "
    "library/libraries bibliothèque f, bank banque f, church/churches église f",
}


def _noun(kind: str, entry: str) -> Noun:
    (english, french, gender) = entry.split()
    (english, _, english_plural), (french, _, french_plural) = english.partition("/"), french.partition("/")
    english_plural = "" if english_plural == "-" else english_plural or f"{english}s"
    return Noun(english, english_plural, french, french_plural or f"{french}s", gender == "f", kind)


NOUNS = tuple(_noun(kind, entry) for kind, entries in _NOUNS.items() for entry in entries.split(", "))


def nouns(names: str) -> tuple[Noun, ...]:
    """The nouns of a list of kinds, nouns and exclusions."""
    listed = names.split()
    unknown = {name.removeprefix("-") for name in listed} - {noun.english for noun in NOUNS} - set(_NOUNS)
    assert not unknown, unknown
    return tuple(
        noun
        for noun in NOUNS
        if (noun.kind in listed or noun.english in listed) and f"-{noun.english}" not in listed
    )


# Nouns that can have a possessive. "Ma femme" and "ma fille" mean wife and daughter.
OWNED = frozenset(
    nouns(
        "kin fellow animal -animal thing vehicle furniture clothes text food drink money home room school "
        "office bank"
    )
)


def _after(
    english: str, french: str, names: str, group: str = "", predicative: bool = True, temporary: bool = False
) -> Adjective:
    """An adjective that follows the noun in French."""
    return Adjective(
        english, tuple(french.split()), nouns(names), group or english, "", predicative, temporary
    )


def _before(
    english: str, french: str, vowel: str, names: str, group: str, predicative: bool = True
) -> Adjective:
    """An adjective that precedes the noun in French; `vowel` is its masculine form before a vowel."""
    return Adjective(english, tuple(french.split()), nouns(names), group, vowel, predicative)


_COLOURED = "thing vehicle furniture opening clothes flower"
_FOREIGN = f"{PEOPLE} car film song book newspaper cheese wine restaurant"

ADJECTIVES = (
    _before(
        "small", "petit petite petits petites", "petit",
        f"child animal thing vehicle furniture opening plant {PLACES}", "size",
    ),
    _before(
        "big", "grand grande grands grandes", "grand",
        f"dog horse bird thing vehicle furniture opening plant {PLACES} -school -restaurant", "size",
    ),
    _before(
        "old", "vieux vieille vieux vieilles", "vieil",
        f"adult kin fellow animal thing vehicle furniture opening clothes text art tree {PLACES} -beach",
        "age",
    ),
    _before("young", "jeune jeune jeunes jeunes", "jeune", f"{PEOPLE} animal -animal", "age"),
    _before(
        "new", "nouveau nouvelle nouveaux nouvelles", "nouvel",
        "fellow thing vehicle furniture clothes book art home kitchen spot -beach", "age", predicative=False,
    ),
    _before(
        "beautiful", "beau belle beaux belles", "bel",
        f"woman actress animal thing vehicle furniture opening clothes art plant {PLACES}", "looks",
    ),
    _before("good", "bon bonne bons bonnes", "bon", "fellow food drink book art hotel restaurant", "taste"),
    _after("red", "rouge rouge rouges rouges", _COLOURED, "colour"),
    _after("blue", "bleu bleue bleus bleues", _COLOURED, "colour"),
    _after("green", "vert verte verts vertes", _COLOURED, "colour"),
    _after("yellow", "jaune jaune jaunes jaunes", _COLOURED, "colour"),
    _after("black", "noir noire noirs noires", f"{_COLOURED} animal", "colour"),
    _after("white", "blanc blanche blancs blanches", f"{_COLOURED} animal", "colour"),
    _after("Italian", "italien italienne italiens italiennes", _FOREIGN, "nation"),
    _after("French", "français française français françaises", _FOREIGN, "nation"),
    _after("American", "américain américaine américains américaines", _FOREIGN, "nation"),
    _after("tired", "fatigué fatiguée fatigués fatiguées", f"{PEOPLE} animal", temporary=True),
    _after("sick", "malade malade malades malades", f"{PEOPLE} animal", temporary=True),
    _after("sad", "triste triste tristes tristes", f"{PEOPLE} art", "mood"),
    _after("happy", "heureux heureuse heureux heureuses", PEOPLE, "mood", temporary=True),
    _after("rich", "riche riche riches riches", "adult kin fellow"),
    _before("kind", "gentil gentille gentils gentilles", "gentil", f"{PEOPLE} dog horse -man", "kindness"),
    _after("intelligent", "intelligent intelligente intelligents intelligentes", f"{PEOPLE} animal"),
    _after("famous", "célèbre célèbre célèbres célèbres", "adult fellow art book painting museum restaurant"),
    _after(
        "interesting", "intéressant intéressante intéressants intéressantes",
        "text art museum town village painting",
    ),
    _after("expensive", "cher chère chers chères", "thing vehicle furniture clothes hotel restaurant house"),
    _after(
        "heavy", "lourd lourde lourds lourdes",
        "bag box furniture door tool plate clock computer painting book coat",
    ),
    _after("empty", "vide vide vides vides", "bag box plate house apartment street restaurant church"),
    _after("clean", "propre propre propres propres", "clothes plate car house kitchen street hotel beach"),
    _after("broken", "cassé cassée cassés cassées", "clock chair bed lamp computer phone plate bike window"),
    _after("quiet", "calme calme calmes calmes", "village town garden park street library hotel beach"),
    _after("delicious", "délicieux délicieuse délicieux délicieuses", "food wine coffee", "taste"),
    _after("fresh", "frais fraîche frais fraîches", "bread meat butter apple pear egg tomato milk", "heat"),
    _after("cold", "froid froide froids froides", "drink soup rice meat", "heat"),
    _after("hot", "chaud chaude chauds chaudes", "water milk coffee tea soup rice", "heat"),
)  # fmt: skip


@cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can describe a noun."""
    return tuple(adjective for adjective in ADJECTIVES if noun in adjective.nouns)


def _verb(
    english: str,
    french: str,
    names: str = "",
    animals: bool = False,
    definite: bool = False,
    stative: bool = False,
) -> Verb:
    base, third = english.split("/")
    return Verb(base, third, tuple(french.split()), nouns(names), animals, definite, stative)


_GOODS = "thing vehicle furniture clothes text food drink animal"

BE = _verb("be/is", "suis es est sommes sont")
GO = _verb("go/goes", "vais vas va allons vont")
COME = _verb("come/comes", "viens viens vient venons viennent")
LIVE = _verb("live/lives", "habite habites habite habitons habitent")
WORK = _verb("work/works", "travaille travailles travaille travaillons travaillent")
GIVE = _verb("give/gives", "donne donnes donne donnons donnent", "thing clothes text food money flower")
TALK = _verb("talk/talks", "parle parles parle parlons parlent")

# Verbs with an object.
TRANSITIVE_VERBS = (
    _verb(
        "see/sees", "vois vois voit voyons voient",
        f"{PEOPLE} animal thing vehicle furniture opening plant clothes text {PLACES}", animals=True,
    ),
    _verb(
        "look for/looks for", "cherche cherches cherche cherchons cherchent",
        "kin fellow animal thing clothes text money food spot", animals=True,
    ),
    _verb(
        "find/finds", "trouve trouves trouve trouvons trouvent",
        "animal thing clothes text money flower", animals=True,
    ),
    _verb(
        "love/loves", "aime aimes aime aimons aiment",
        f"{PEOPLE} animal thing vehicle clothes text art plant food drink {PLACES}",
        definite=True, stative=True,
    ),
    _verb("want/wants", "veux veux veut voulons veulent", f"{_GOODS} money -animal", stative=True),
    _verb("have/has", "ai as a avons ont", f"{_GOODS} money", stative=True),
    _verb("take/takes", "prends prends prend prenons prennent", "thing clothes text food drink money"),
    _verb("buy/buys", "achète achètes achète achetons achètent", _GOODS),
    _verb("sell/sells", "vends vends vend vendons vendent", _GOODS),
    _verb("eat/eats", "mange manges mange mangeons mangent", "food", animals=True),
    _verb("drink/drinks", "bois bois boit buvons boivent", "drink"),
    _verb("read/reads", "lis lis lit lisons lisent", "text story"),
    _verb(
        "listen to/listens to", "écoute écoutes écoute écoutons écoutent",
        f"{PEOPLE} song story", definite=True,
    ),
    _verb("watch/watches", "regarde regardes regarde regardons regardent", "animal film", animals=True),
    _verb(
        "know/knows", "connais connais connaît connaissons connaissent",
        f"{PEOPLE} art book home spot", definite=True, stative=True,
    ),
    _verb("wear/wears", "porte portes porte portons portent", "clothes"),
    _verb(
        "visit/visits", "visite visites visite visitons visitent",
        "village town museum church library", definite=True,
    ),
    _verb("wait for/waits for", "attends attends attend attendons attendent", PEOPLE, definite=True),
    _verb("help/helps", "aide aides aide aidons aident", PEOPLE, definite=True),
    _verb("meet/meets", "rencontre rencontres rencontre rencontrons rencontrent", PEOPLE),
    _verb(
        "forget/forgets", "oublie oublies oublie oublions oublient",
        "thing clothes text money", definite=True,
    ),
    _verb("open/opens", "ouvre ouvres ouvre ouvrons ouvrent", "opening box bag umbrella letter book"),
)  # fmt: skip

# Verbs without an object.
INTRANSITIVE_VERBS = (
    WORK,
    _verb("sing/sings", "chante chantes chante chantons chantent"),
    _verb("dance/dances", "danse danses danse dansons dansent"),
    _verb("sleep/sleeps", "dors dors dort dormons dorment", animals=True),
    _verb("cry/cries", "pleure pleures pleure pleurons pleurent"),
    _verb("walk/walks", "marche marches marche marchons marchent", animals=True),
    _verb("run/runs", "cours cours court courons courent", animals=True),
    _verb("play/plays", "joue joues joue jouons jouent", animals=True),
)


class Preposition(NamedTuple):
    """A preposition of place with its possible nouns."""

    english: str
    french: str
    landmarks: tuple[Noun, ...]  # nouns that can follow the preposition
    subjects: tuple[Noun, ...]  # nouns that can be at such a place


_SMALL = "thing clothes text"

AT = Preposition("at", "à", nouns("spot"), nouns(PEOPLE))
TO = Preposition("to", "à", nouns("spot"), ())
FROM = Preposition("from", "de", nouns("spot"), ())
IN = Preposition("in", "dans", nouns("home room outdoors"), nouns(f"{PEOPLE} animal"))
AT_HOME = Preposition("in", "dans", nouns("home"), ())
PREPOSITIONS = (
    AT,
    IN,
    Preposition("in", "dans", nouns("box bag car kitchen"), nouns("key phone knife book letter shirt money")),
    Preposition("on", "sur", nouns("furniture"), nouns(f"{_SMALL} cat mouse")),
    Preposition("on", "sur", nouns("table"), nouns("food drink -rice -soup plate knife")),
    Preposition("under", "sous", nouns("furniture tree"), nouns(f"{_SMALL} cat mouse rabbit bird dog")),
    Preposition(
        "behind",
        "derrière",
        nouns("door house tree car hotel school church"),
        nouns("adult child fellow animal vehicle bag box umbrella"),
    ),
    Preposition(
        "in front of",
        "devant",
        nouns("house hotel school station museum bank church window"),
        nouns(f"{PEOPLE} animal vehicle tree"),
    ),
    Preposition(
        "near",
        "près de",
        nouns("spot house park tree"),
        nouns(f"{PEOPLE} animal vehicle"),
    ),
    Preposition("near", "près de", nouns("spot park -hotel -restaurant"), nouns("hotel restaurant house")),
)
