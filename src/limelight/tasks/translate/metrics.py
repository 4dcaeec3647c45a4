"""How good translations are, on raw text."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from limelight.data.text.vocabulary import Words
from limelight.tasks.task import Judgement


def judge_translations(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Judgement:
    """BLEU (Papineni et al. 2002) and chrF (Popović 2015) by sacreBLEU (Post 2018), cased and not; exact
    matches, white space aside; and the BLEU of courses. Each hypothesis has one reference or more."""
    most = max(map(len, references))
    # sacreBLEU wants the first references of all, then the second ones; None where there is no other,
    # which its types do not know.
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
    """exp(min(0, 1 - |r|/|h|)) · ∏ pₙ^(1/2ⁿ) for n up to `longest`, of one sentence in words: from 0 to 1.

    This is how Dive into Deep Learning judges translations (Zhang et al. 2023, section 10.7). It is not
    BLEU, and no published figure compares with it.
    """
    said, wanted = Words.split(hypothesis), Words.split(reference)
    if not said:
        return 0.0
    score = math.exp(min(0.0, 1 - len(wanted) / len(said)))
    for n in range(1, min(longest, len(said)) + 1):
        ours, theirs = _ngrams(said, n), _ngrams(wanted, n)
        score *= ((ours & theirs).total() / ours.total()) ** (0.5**n)
    return score


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def single_spaced(text: str) -> str:
    return " ".join(text.split())
