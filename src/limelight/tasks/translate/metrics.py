"""Metrics of translations, on raw text."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from limelight.data.text.vocabulary import Words
from limelight.tasks.metrics import DESCRIPTIONS, Judgement
from limelight.tasks.task import single_spaced

METRIC_DESCRIPTIONS = DESCRIPTIONS | {
    "accuracy": "share of the next tokens that are predicted correctly, given the reference before them",
    "bleu": "BLEU of sacreBLEU, 0 to 100",
    "bleu_lowercase": "BLEU without the difference of upper and lower case",
    "chrf": "chrF of sacreBLEU: character n-grams, 0 to 100",
    "exact": "share of the translations that are equal to a reference",
    "course_bleu": "score of each sentence as in the course Dive into Deep Learning, from words and pairs of "
    "words, 0 to 1; not comparable with BLEU",
}


def judge_translations(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Judgement:
    """BLEU, chrF, exact matches and `course_bleu`; each hypothesis has one or more references.

    BLEU (Papineni et al. 2002), cased and lowercased, and chrF (Popović 2015) are computed by sacreBLEU
    (Post 2018). Exact matches ignore the kind of white space.
    """
    most = max(map(len, references))
    # sacreBLEU takes the first references of all sentences, then the second ones, with None where there is
    # no other reference (which its type annotations do not allow).
    columns: Any = [[several[i] if i < len(several) else None for several in references] for i in range(most)]
    rules = {"bleu": BLEU(), "bleu_lowercase": BLEU(lowercase=True), "chrf": CHRF()}
    values = {name: rule.corpus_score(hypotheses, columns).score for name, rule in rules.items()}
    exact = [
        single_spaced(hypothesis) in map(single_spaced, several)
        for hypothesis, several in zip(hypotheses, references, strict=True)
    ]
    values["exact"] = sum(exact) / len(exact)
    each = [
        max(course_bleu(hypothesis, reference) for reference in several)
        for hypothesis, several in zip(hypotheses, references, strict=True)
    ]
    values["course_bleu"] = sum(each) / len(each)
    signatures = {name: str(rule.get_signature()) for name, rule in rules.items()}
    return Judgement(values, signatures)


def course_bleu(hypothesis: str, reference: str, longest: int = 2) -> float:
    """exp(min(0, 1 - |r|/|h|)) · ∏ pₙ^(1/2ⁿ) for n up to `longest`: the score of one sentence, 0 to 1.

    The metric of Dive into Deep Learning (Zhang et al. 2023, section 10.7). It is not BLEU and cannot be
    compared with published figures.
    """
    words, reference_words = Words.split(hypothesis), Words.split(reference)
    if not words:
        return 0.0
    score = math.exp(min(0.0, 1 - len(reference_words) / len(words)))
    for n in range(1, min(longest, len(words)) + 1):
        ours, theirs = _ngrams(words, n), _ngrams(reference_words, n)
        score *= ((ours & theirs).total() / ours.total()) ** (0.5**n)
    return score


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))
