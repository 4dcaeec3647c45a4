"""Generation and scores of a language model, compared with its forward pass on whole texts."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support import must_fail
from torch import Tensor

from limelight.config import read
from limelight.data.text.text_vocabulary import END, UNKNOWN, TextBytes
from limelight.errors import WrongInput
from limelight.models.decoder_only import DecoderOnlyConfig, LanguageGenerator, LanguageModel
from limelight.models.sizes import Sizes
from limelight.nn import FastCache
from limelight.nn.kernels.linear import SUMS_ROWS
from limelight.tasks.language import generation
from limelight.tasks.language.generation import (
    LanguageOptions,
    log_probabilities,
    next_tokens,
    penalise,
    text_pieces,
)

V, CONTEXT, LENGTH = 31, 11, 37


def build(**settings: Any) -> LanguageModel:
    torch.manual_seed(5)
    config = DecoderOnlyConfig(width=12, heads=2, depth=2, hidden=17, **settings)
    model = config.build(Sizes(outputs=V, vocabulary=V, longest=CONTEXT, shared=True)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.4)
        model.embedding.weight[END] *= 0.01  # unlikely, so that texts are long
    return model


MODEL = build()


def generated(model: LanguageModel, **options: Any) -> list[tuple[int, float]]:
    return list(next_tokens(model, [3, 5], CONTEXT, LanguageOptions(**{"length": LENGTH, **options})))


def check_greedy(model: LanguageModel, found: list[tuple[int, float]]) -> None:
    """Each token is the most likely one, by a forward pass over what the model has read."""
    tokens, read_from = [3, 5], 0
    for token, log_probability in found:
        if len(tokens) - read_from > CONTEXT:
            read_from = len(tokens) - CONTEXT // 2
        logits_V = model(torch.tensor([tokens[read_from:]]))[0, -1]
        logits_V[UNKNOWN] = -torch.inf
        logits_V = logits_V.log_softmax(-1)
        assert token == int(logits_V.argmax())
        assert abs(log_probability - float(logits_V[token])) < 1e-4
        tokens.append(token)
    assert len(found) == LENGTH or tokens[-1] == END


@pytest.mark.parametrize("positions", ["rotary", "learned", "alibi", "sinusoidal"])
@torch.no_grad()
def test_greedy_generation_beyond_the_context_takes_the_most_likely_tokens(positions: str) -> None:
    model = build(positions=positions)
    found = generated(model)
    check_greedy(model, found)
    must_fail(check_greedy, model, [(token + 1, value) for token, value in found])


def test_the_unknown_token_is_never_generated() -> None:
    model = build()
    prompt = torch.tensor([[3, 5]])
    with torch.no_grad():
        likely = int(model(prompt)[0, -1].argmax())
        model.output.weight[UNKNOWN] = 5 * model.output.weight[likely]
        assert int(model(prompt)[0, -1].argmax()) == UNKNOWN
    for options in ({}, {"temperature": 1.0}):
        assert UNKNOWN not in [token for token, _ in generated(model, **options)]


@pytest.mark.skipif(not SUMS_ROWS, reason="torch without FBGEMM")
@pytest.mark.parametrize("positions", ["rotary", "learned", "alibi"])
@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.9}, {"temperature": 1.2, "top_k": 5, "top_p": 0.9}, {"repetition": 1.5}],
    ids=["greedy", "sampled", "filtered", "penalised"],
)
def test_guesses_do_not_change_the_tokens(
    positions: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(positions=positions)
    expected = generated(model, **options)
    monkeypatch.setattr("limelight.models.decoder_only.WORTH_DRAFTS", 0)
    counts, exact, guess = list[int](), LanguageGenerator.step, generation._guess

    def counted(self: LanguageGenerator, tokens: Tensor, cache: FastCache) -> Tensor:
        counts.append(len(tokens))
        return exact(self, tokens, cache)

    def check() -> None:
        found = generated(model, **options)
        assert [token for token, _ in found] == [token for token, _ in expected]
        values = [value for _, value in expected]
        torch.testing.assert_close([value for _, value in found], values, rtol=1e-5, atol=1e-5)

    monkeypatch.setattr(LanguageGenerator, "step", counted)
    check()
    assert max(counts) > 3  # several guesses at once
    monkeypatch.setattr(generation, "_guess", lambda *a: [1 + (token % 7) for token in guess(*a)])
    check()  # wrong guesses do not change the tokens, either
    monkeypatch.setattr(LanguageGenerator, "step", lambda *a: counted(*a).roll(int(len(a[1]) > 1), -1))
    must_fail(check)


def test_sampled_tokens_depend_on_the_seed_and_on_nothing_else() -> None:
    first = generated(MODEL, temperature=1.0)
    torch.manual_seed(17)
    assert generated(MODEL, temperature=1.0) == first
    assert generated(MODEL, temperature=1.0, seed=2) != first
    assert generated(MODEL, temperature=1.0, top_k=1) == generated(MODEL)


def test_sampled_tokens_have_the_probabilities_of_the_model() -> None:
    tokens = torch.tensor(
        [generated(MODEL, length=1, temperature=0.8, seed=seed)[0][0] for seed in range(2_000)]
    )
    logits = MODEL(torch.tensor([[3, 5]]))[0, -1].detach()
    logits[UNKNOWN] = -torch.inf
    expected = (logits / 0.8).softmax(-1)
    found = tokens.bincount(minlength=V) / len(tokens)

    def check(expected: Tensor) -> None:
        assert float((found - expected).abs().max()) < 0.04

    check(expected)
    must_fail(check, torch.full((V,), 1 / V))


def test_generation_ends_at_the_end_of_the_document() -> None:
    model = build()
    with torch.no_grad():
        model.output.weight = torch.nn.Parameter(torch.zeros(V, 12))
    found = [list(next_tokens(model, [3], CONTEXT, LanguageOptions(length=997, temperature=1.0, seed=seed)))
             for seed in range(11)]  # fmt: skip
    for text in found:
        assert END not in [token for token, _ in text[:-1]]
    assert any(text[-1][0] == END for text in found)


def test_the_repetition_penalty_makes_used_tokens_less_likely() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0, 0.5]])
    assert penalise(logits, [0, 1, 0], 2.0).tolist() == [[1.0, -4.0, 1.0, 0.5]]

    def repeats(**options: Any) -> int:
        tokens = [token for token, _ in generated(MODEL, **options)]
        return len(tokens) - len(set(tokens))

    assert repeats(repetition=3.0) < repeats()


@pytest.mark.parametrize("row", [[4], [4, 9], list(range(2, 13)), list(range(2, 14)), list(range(29)) * 2])
@torch.no_grad()
def test_log_probabilities_are_those_of_the_windows(row: list[int]) -> None:
    found = log_probabilities(MODEL, torch.tensor(row), CONTEXT)
    assert len(found) == len(row) - 1
    begins = [0, *range(CONTEXT - CONTEXT // 2, len(row), CONTEXT - CONTEXT // 2)]
    for place, value in enumerate(found.tolist()):
        # A token is predicted in the first window that contains it.
        begin = next(begin for begin in begins if place < begin + CONTEXT)
        logits = MODEL(torch.tensor([row[begin : place + 1]]))[0, -1].log_softmax(-1)
        assert abs(value - float(logits[row[place + 1]])) < 1e-4


@torch.no_grad()
def test_the_probabilities_of_all_texts_of_a_length_sum_to_one() -> None:
    total = 0.0
    for pair in itertools.product(range(V), repeat=2):
        total += float(log_probabilities(MODEL, torch.tensor([3, *pair]), CONTEXT).sum().exp())
    assert abs(total - 1) < 1e-3


def pieces(text: str, stop: str = "") -> list[str]:
    return list(text_pieces(iter(TextBytes().encode(text).tolist()), TextBytes(), stop))


def test_text_is_given_in_pieces_of_whole_characters() -> None:
    assert pieces("aé漢") == ["a", "é", "漢"]
    half = TextBytes().encode("漢").tolist()[:2]
    assert list(text_pieces(iter(half), TextBytes())) == ["\ufffd"]


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("one two three", "two", "one "),
        ("one two three", "four", "one two three"),
        ("aaab", "aab", "a"),
        ("aa", "aab", "aa"),
        ("abab!", "abac", "abab!"),
        ("é漢x", "漢", "é"),
    ],
)
def test_text_ends_before_the_text_to_stop_at(text: str, stop: str, expected: str) -> None:
    assert "".join(pieces(text, stop)) == expected


def test_text_that_may_be_the_beginning_of_the_stop_is_held_back() -> None:
    seen: list[str] = []

    def tokens() -> Iterator[int]:
        for token in TextBytes().encode("x<end>").tolist():
            yield token
            seen.append(f"after {chr(token - 2)}")

    for piece in text_pieces(tokens(), TextBytes(), "<end>"):
        seen.append(piece)
    assert "<" not in seen
    assert seen[0] == "x"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 0}, "length is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"top_k": 3}, "temperature is 0; allowed with top_k or top_p: more than 0"),
        ({"repetition": 0.0}, "repetition is 0.0"),
        ({"temperature": 1e-9}, "allowed: 0, or at least 0.001"),
    ],
)
def test_options_out_of_range_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        read(LanguageOptions, given)
