"""Similar code is found although names, comments and the layout differ; other code is not."""

import ast
import re

from classroom import ORIGINALS

from limelight.check.marking.similarity import pieces, similar_pairs

UVA = (ORIGINALS / "uva_style.py").read_text()
D2L = (ORIGINALS / "d2l_style.py").read_text()
PLAIN = (ORIGINALS / "plain_style.py").read_text()


def disguised(code: str) -> str:
    """The same code with other names, comments and docstrings."""
    for name in (
        "scores",
        "values",
        "attention",
        "MultiheadAttention",
        "embed_dim",
        "num_heads",
        "x",
        "q",
        "k",
    ):
        code = re.sub(rf"\b{name}\b", f"my_{name}", code)
    return '"""Entirely my own work."""\n# really\n' + ast.unparse(ast.parse(code))


def test_renamed_code_is_similar_and_other_code_is_not() -> None:
    codes = {"ada": [UVA], "bob": [disguised(UVA)], "cy": [D2L], "dan": [PLAIN]}
    (pair,) = similar_pairs(codes)
    assert pair[1:] == ("ada", "bob")
    assert pair[0] > 0.95


def test_the_handout_is_not_counted() -> None:
    one, two = (f"{UVA}\n\n{code}" for code in (D2L, PLAIN))
    assert similar_pairs({"ada": [one], "bob": [two]}, [UVA]) == []
    assert similar_pairs({"ada": [one], "bob": [one]}, [UVA]) != []


def test_code_that_most_submissions_have_is_not_counted() -> None:
    codes = {f"student {number}": [UVA] for number in range(10)}
    assert similar_pairs(codes) == []
    codes |= {"ada": [f"{UVA}\n{D2L}"], "bob": [f"{UVA}\n{D2L}"]}
    assert [pair[1:] for pair in similar_pairs(codes)] == [("ada", "bob")]


def test_code_with_syntax_errors_and_short_code_are_not_compared() -> None:
    assert pieces("def f(:") == set()
    short = "def f(x):\n    return x + 1\n"
    assert similar_pairs({"ada": [short], "bob": [short]}) == []
