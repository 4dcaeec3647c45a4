"""Entities and their metrics, by the convention of conlleval; all cases are computed by hand."""

import pytest
from support import must_fail

from limelight.tasks.tag.entities import Entity, are_spans, entities, judge_entities

# Labels without the type X: "I" is "I-X". Entities as "type first-end", with the end counted as in slices.
CASES = {
    "O": "",
    "B": "X 0-1",
    "B I": "X 0-2",
    "B I O B": "X 0-2, X 3-4",
    "B B": "X 0-1, X 1-2",
    "I I": "X 0-2",  # IOB1, or a mistake: an I- after nothing begins an entity
    "O I I O": "X 1-3",
    "I B": "X 0-1, X 1-2",
    "B I-Y": "X 0-1, Y 1-2",  # another type begins a new entity
    "I-Y B I I-Y": "Y 0-1, X 1-3, Y 3-4",
    "S S": "X 0-1, X 1-2",
    "B I E": "X 0-3",
    "B E E": "X 0-2, X 2-3",
    "B E I": "X 0-2, X 2-3",
    "S I": "X 0-1, X 1-2",
    "O E": "X 1-2",
    "B S": "X 0-1, X 1-2",
    "B-Y-Z I-Y-Z": "Y-Z 0-2",
}


def labels_of(case: str) -> list[str]:
    return [one if one == "O" or "-" in one else f"{one}-X" for one in case.split()]


def expected(text: str) -> set[Entity]:
    found = set()
    for one in filter(None, text.split(", ")):
        kind, _, span = one.rpartition(" ")
        start, end = map(int, span.split("-"))
        found.add((kind, start, end))
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_entities_of_a_sentence_are_those_of_conlleval(case: str) -> None:
    assert entities(labels_of(case)) == expected(CASES[case])


def test_precision_recall_and_f1_count_exact_spans_with_their_type() -> None:
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O", "B-ORG", "I-ORG"], ["O", "B-PER"]]
    answers = [["B-PER", "I-PER", "O", "B-ORG"], ["B-LOC", "O", "B-ORG", "O"], ["B-PER", "B-PER"]]
    # Right: PER 0-2, LOC 0-1, PER 1-2. Wanted: 5. Given: PER, ORG, LOC, ORG, PER, PER.
    judged = judge_entities(truth, answers)
    assert judged.values == pytest.approx({"precision": 3 / 6, "recall": 3 / 5, "f1": 2 * 3 / 11})
    by_type = {
        name: (one.precision, one.recall, one.f1, one.examples) for name, one in judged.classes.items()
    }
    assert by_type["PER"] == pytest.approx((2 / 3, 1, 4 / 5, 2))
    assert by_type["LOC"] == pytest.approx((1, 1 / 2, 2 / 3, 2))
    assert by_type["ORG"] == (0, 0, 0, 1)
    assert judged.confusion == []


def check_half_a_span(answer: list[str]) -> None:
    assert judge_entities([["B-PER", "I-PER"]], [answer]).values["f1"] == 1


def test_half_of_a_span_is_worth_nothing() -> None:
    check_half_a_span(["I-PER", "I-PER"])
    must_fail(check_half_a_span, ["B-PER", "O"])
    must_fail(check_half_a_span, ["B-PER", "B-PER"])
    must_fail(check_half_a_span, ["B-LOC", "I-LOC"])


def test_a_text_without_entities_has_metrics() -> None:
    assert judge_entities([["O", "O"]], [["O", "O"]]).values == {"f1": 0, "precision": 0, "recall": 0}


@pytest.mark.parametrize(
    ("names", "spans"),
    [
        (("B-PER", "I-PER", "O"), True),
        (("B-PER", "E-PER", "S-LOC", "I-PER", "O"), True),
        (("I-PER", "O"), True),
        (("O",), False),
        (("NOUN", "O", "VERB"), False),
        (("B-PER", "NOUN"), False),
        (("B-", "O"), False),
        (("B", "I", "O"), False),
    ],
)
def test_labels_of_entities_are_recognised(names: tuple[str, ...], spans: bool) -> None:
    assert are_spans(names) is spans
