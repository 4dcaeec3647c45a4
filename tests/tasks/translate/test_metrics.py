"""How translations are judged."""

import math

import pytest
import sacrebleu
from support import must_fail

from limelight.tasks.translate.metrics import course_bleu, judge_translations

PREDICTED = ["Le chat noir dort sur le lit.", "Elle voit la maison rouge.", "Nous mangeons du pain."]
REFERENCES = [["Le chat noir dort sur mon lit."], ["Elle voit la maison rouge."], ["Nous mangeons le pain."]]


def test_bleu_and_chrf_are_those_of_sacrebleu_on_raw_text() -> None:
    judged = judge_translations(PREDICTED, REFERENCES)
    references = [[several[0] for several in REFERENCES]]
    expected = sacrebleu.corpus_bleu(PREDICTED, references).score
    assert judged.values["bleu"] == expected
    assert judged.values["chrf"] == sacrebleu.corpus_chrf(PREDICTED, references).score
    assert (
        judged.values["bleu_lowercase"] == sacrebleu.corpus_bleu(PREDICTED, references, lowercase=True).score
    )
    assert judged.signatures["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "case:lc" in judged.signatures["bleu_lowercase"]
    assert 30 < expected < 90


def test_only_bleu_lowercase_ignores_case() -> None:
    judged = judge_translations([text.upper() for text in PREDICTED], REFERENCES)
    assert (
        judged.values["bleu_lowercase"] == judge_translations(PREDICTED, REFERENCES).values["bleu_lowercase"]
    )
    assert judged.values["bleu"] < 5


def test_sentences_may_have_different_numbers_of_references() -> None:
    more = [[*REFERENCES[0], PREDICTED[0]], REFERENCES[1], [*REFERENCES[2], "Autre chose.", PREDICTED[2]]]
    judged = judge_translations(PREDICTED, more)
    assert judged.values["bleu"] == pytest.approx(100)
    assert judged.values["exact"] == judged.values["course_bleu"] == 1
    assert "nrefs:var" in judged.signatures["bleu"]


def test_an_exact_match_ignores_only_the_kind_of_white_space() -> None:
    def exact(predicted: str, reference: str) -> float:
        return judge_translations([predicted], [[reference]]).values["exact"]

    assert exact("Où est-il ?", "Où est-il\u202f?") == 1
    assert exact("Où est-il?", "Où est-il\u202f?") == 0
    assert exact("où est-il ?", "Où est-il ?") == 0


def check_course(score: float) -> None:
    """Of `A B C D E F` and `A B B C D`, the example of the course: p₁ = 4/5, p₂ = 3/4, p₃ = 1/3, p₄ = 0."""
    assert score == pytest.approx(math.exp(1 - 6 / 5) * (4 / 5) ** 0.5 * (3 / 4) ** 0.25)


def test_course_bleu_equals_the_formula_of_the_textbook() -> None:
    check_course(course_bleu("a b b c d", "a b c d e f"))
    must_fail(check_course, course_bleu("a b b c d", "a b c d e f", longest=3))
    assert course_bleu("a b b c d", "a b c d e f", longest=4) == 0
    assert course_bleu("je suis chez moi .", "Je suis chez moi.") == 1
    assert course_bleu("", "je suis") == 0
    assert course_bleu("va !", "va !") == 1
