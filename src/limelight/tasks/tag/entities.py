"""Entities: spans of tokens with a type, in the schemes IOB1, IOB2 and BIOES."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from limelight.tasks.metrics import ClassMetrics, Judgement

OUTSIDE = "O"
LABEL = re.compile(r"[BIES]-.+")

Entity = tuple[str, int, int]  # type, first token, token after the last one


def are_spans(names: Iterable[str]) -> bool:
    """Whether labels are those of entities: O, and types after B-, I-, E- or S-."""
    inside = [name for name in names if name != OUTSIDE]
    return bool(inside) and all(LABEL.fullmatch(name) for name in inside)


def entities(labels: Sequence[str]) -> set[Entity]:
    """The entities of a sentence, by the convention of conlleval (CoNLL-2000), which seqeval follows.

    An entity begins at B- or S-, at any label after O, after E- or S-, and where the type changes: an I-
    needs no B- before it. It ends before the next O or the next beginning.
    """
    found, before, start = set[Entity](), OUTSIDE, 0
    for i, label in enumerate([*labels, OUTSIDE]):
        begins = label[0] in "BS" or before[0] in "OES" or label[2:] != before[2:]
        if before != OUTSIDE and (label == OUTSIDE or begins):
            found.add((before[2:], start, i))
        if label != OUTSIDE and begins:
            start = i
        before = label
    return found


def judge_entities(truths: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Judgement:
    """Precision, recall and F1 of entities, overall (micro average) and by type.

    An entity is right if its type, its first and its last token are. Without entities to divide by, a metric
    is 0.
    """
    wanted, given, right = Counter[str](), Counter[str](), Counter[str]()
    for truth, answer in zip(truths, predicted, strict=True):
        both = entities(truth), entities(answer)
        for count, found in zip((wanted, given, right), (*both, both[0] & both[1]), strict=True):
            count.update(kind for kind, _, _ in found)
    classes = {
        kind: _metrics(right[kind], wanted[kind], given[kind])
        for kind in sorted(wanted.keys() | given.keys())
    }
    overall = _metrics(right.total(), wanted.total(), given.total())
    values = {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}
    return Judgement(values, classes=classes)


def _metrics(right: int, wanted: int, given: int) -> ClassMetrics:
    return ClassMetrics(
        precision=right / max(given, 1),
        recall=right / max(wanted, 1),
        f1=2 * right / max(given + wanted, 1),
        examples=wanted,
    )
