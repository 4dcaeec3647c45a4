"""Generation token by token: greedy, beam search, sampling; with and without a cache, alone or in a batch."""

import math
from copy import deepcopy
from functools import cache
from itertools import pairwise, product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import must_fail, not_none
from torch import Tensor

from limelight.config import read
from limelight.data.batching import even_batches
from limelight.data.ragged import Ragged
from limelight.errors import WrongInput
from limelight.models.recurrent import RecurrentConfig
from limelight.models.sizes import Sizes
from limelight.models.transformer import TransformerConfig
from limelight.tasks.sampling import draw_noise, sample
from limelight.tasks.translate.search import Hypothesis, Search, Sources, decode

V, L = 29, 31
BEGIN, END = L - 2, L - 1
SENTENCES, LIMIT = 1_000, 13

pytestmark = pytest.mark.slow
SIZES = Sizes(outputs=L, vocabulary=V, longest=LIMIT)

MODELS = {
    "transformer": TransformerConfig(width=22, heads=2, hidden=43, norm="pre"),
    "recurrent": RecurrentConfig(width=23, embedding=19),
}
each_model = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
each_search = pytest.mark.parametrize("search", [Search(), Search(beam=3, n_best=3)], ids=["greedy", "beam"])


@cache
def built(config: Any) -> Any:
    """Taught for a moment to say each source backwards, so that every sentence has words and a length."""
    torch.manual_seed(5)
    model = config.build(SIZES).train()
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    texts = rows(64 * 150, seed=7)
    for index in torch.arange(len(texts)).split(64):
        tokens, lengths = texts.pad(index)
        ways = [torch.tensor([BEGIN, *texts[i].flip(0), END]) for i in index.tolist()]
        target, target_lengths = Ragged.from_rows(ways).pad(torch.arange(64))
        logits = model(tokens, target[:, :-1], lengths, not_none(target_lengths) - 1)
        loss = F.cross_entropy(logits, torch.cat([way[1:] for way in ways]))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return model.eval()


def rows(count: int, seed: int = 3) -> Ragged:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=draw).tolist()
    return Ragged.from_rows([torch.randint(V, (length,), generator=draw) for length in lengths])


def sources(tokens: Tensor, lengths: Tensor | None) -> Sources:
    return Sources(tokens, lengths, [LIMIT] * len(tokens), BEGIN, END)


def in_batches(model: Any, texts: Ragged, search: Search, size: int) -> list[list[list[int]]]:
    """The tokens of each hypothesis of each sentence."""
    found: dict[int, Any] = {}
    for index in even_batches(texts.lengths, size):
        hypotheses = decode(model, sources(*texts.pad(index)), search)
        found |= zip(index.tolist(), ([h.tokens for h in several] for several in hypotheses), strict=True)
    return [found[i] for i in range(len(texts))]


class Uncached:
    """Computes everything again at every step."""

    longest: int | None = None

    def __init__(self, model: Any) -> None:
        self.model = model

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> "Rows":
        return Rows(source, lengths, torch.empty(len(source), 0, dtype=torch.long))

    def step(self, tokens: Tensor, state: "Rows") -> Tensor:
        state.target = torch.cat((state.target, tokens.unsqueeze(1)), 1)
        return self.model(state.source, state.target, state.lengths).unflatten(0, state.target.shape)[:, -1]


class Rows:
    def __init__(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> None:
        self.source, self.lengths, self.target = source, lengths, target

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        self.source, self.target = self.source[index], self.target[index]
        self.lengths = None if self.lengths is None else self.lengths[index]


class Forgetful(Rows):
    """Keeps as many rows as it should, and the wrong ones."""

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        super().reorder(torch.arange(len(index)) % len(self.target))


class Careless(Uncached):
    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> Rows:
        return Forgetful(source, lengths, torch.empty(len(source), 0, dtype=torch.long))


def check_same(model: Any, other: Any, texts: Ragged, search: Search, sizes: tuple[int, int]) -> None:
    one, two = (in_batches(m, texts, search, size) for m, size in zip((model, other), sizes, strict=True))
    assert len({tuple(hypotheses[0]) for hypotheses in one}) > len(texts) / 2, "all say the same"
    different = [i for i, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
    assert not different


@each_model
@each_search
def test_cached_decoding_equals_decoding_without_a_cache(config: Any, search: Search) -> None:
    model, texts = built(config), rows(SENTENCES)
    check_same(model.generator(), Uncached(model), texts, search, (50, 50))
    must_fail(check_same, model, Careless(model), texts, search, (50, 50))


@each_search
def test_a_generator_gives_the_same_tokens_as_its_model(search: Search) -> None:
    for variant in ({"norm": "pre"}, {"norm": "post"}, {"norm": "pre", "heads": 1, "positions": "rotary"}):
        sizes: dict[str, Any] = {"width": 22, "heads": 2, "hidden": 43, "activation": "gelu"}
        model = built(TransformerConfig(**(sizes | variant)))
        check_same(model.generator(), model, rows(200), search, (50, 50))


@each_model
@each_search
def test_a_translation_does_not_depend_on_the_batch(config: Any, search: Search) -> None:
    generator, texts = built(config).generator(), rows(SENTENCES)
    check_same(generator, generator, texts, search, (64, 1))


class Table:
    """A generator whose probabilities are known: the next token depends on the last one."""

    longest: int | None = None

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> "Nothing":
        return Nothing()

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        return self.logits[tokens]


class Nothing:
    def reorder(self, index: Tensor, *, sources: bool = True) -> None: ...


def every_sentence(logits: Tensor, limit: int) -> list[Hypothesis]:
    """Each one of up to `limit` tokens with its end, the best first; the last two tokens are the marks."""
    size = len(logits)
    likely = logits.log_softmax(-1)
    found = []
    for length in range(limit):
        for tokens in product(range(size - 1), repeat=length):
            way = [size - 2, *tokens, size - 1]
            found.append(Hypothesis(list(tokens), float(sum(likely[a, b] for a, b in pairwise(way)))))
    return sorted(found, key=lambda h: -h.log_probability)


def test_a_wide_beam_finds_the_most_likely_sentence() -> None:
    torch.manual_seed(3)
    for _ in range(20):
        logits = torch.randn(5, 5) * 2
        logits[:, 4] += 3
        one = Sources(torch.zeros(1, 1, dtype=torch.long), None, [5], begin=3, end=4)
        best = decode(Table(logits), one, Search(beam=64, n_best=1, length_penalty=0.0))[0][0]
        expected = every_sentence(logits, 5)[0]
        assert best.tokens == expected.tokens
        assert best.log_probability == pytest.approx(expected.log_probability, abs=1e-5)


def test_answers_are_sorted_by_log_probability_and_length_penalty() -> None:
    model, texts = built(MODELS["transformer"]), rows(37)
    for penalty in (0.0, 1.0, 2.0):
        search = Search(beam=5, n_best=5, length_penalty=penalty)
        for hypotheses in decode(model, sources(*texts.pad(torch.arange(37))), search):
            # What was cut at the limit comes last.
            ranks = [
                (len(h.tokens) + 1 >= LIMIT, -h.log_probability / (len(h.tokens) + 1) ** penalty)
                for h in hypotheses
            ]
            assert ranks == sorted(ranks)
            assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) == 5


def test_the_probability_of_an_answer_is_that_of_the_whole_sentence() -> None:
    model, texts = built(MODELS["transformer"]), rows(7)
    for search in (Search(), Search(beam=3), Search(temperature=1.0)):
        for i, (hypothesis, *_) in enumerate(decode(model, sources(*texts.pad(torch.arange(7))), search)):
            way = torch.tensor([BEGIN, *hypothesis.tokens, END])
            likely = model(texts[i].unsqueeze(0), way[:-1].unsqueeze(0)).detach().log_softmax(-1)
            whole = likely[range(len(way) - 1), way[1:]]
            ended = len(hypothesis.tokens) + 1 < LIMIT
            expected = float(whole.sum() if ended else whole[:-1].sum())
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)


def test_no_translation_is_longer_than_its_limit() -> None:
    model, texts = deepcopy(built(MODELS["transformer"])), rows(23)
    with torch.no_grad():
        model.output.bias[END] -= 100.0
    tokens, lengths = texts.pad(torch.arange(23))
    limits = [2 + i % 7 for i in range(23)]
    for search in (Search(), Search(beam=3)):
        found = decode(model, Sources(tokens, lengths, limits, BEGIN, END), search)
        assert [len(hypotheses[0].tokens) + 1 for hypotheses in found] == limits


@each_model
def test_finished_sentences_are_removed_together_with_their_source(config: Any) -> None:
    """Two of four leave, and two beams of each of the others begin: as many rows as before, other sources."""
    generator, texts = built(config).generator(), rows(200)
    four = [i for i in range(200) if len(texts[i]) == 5][:4]
    tokens, _ = texts.pad(torch.tensor(four))
    limits = [2, 2, LIMIT, LIMIT]
    together = decode(generator, Sources(tokens, None, limits, BEGIN, END), Search(beam=2, n_best=2))
    for row in range(4):
        alone = Sources(tokens[row : row + 1], None, limits[row : row + 1], BEGIN, END)
        (expected,) = decode(generator, alone, Search(beam=2, n_best=2))
        assert [h.tokens for h in together[row]] == [h.tokens for h in expected]


def drawn(search: Search, count: int = 4_000) -> Tensor:
    """How often each of five tokens is drawn, of these probabilities."""
    logits = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05]).log().expand(count, 5)
    tokens = sample(logits, search, draw_noise(logits, torch.Generator().manual_seed(1)))
    return tokens.bincount(minlength=5) / count


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (Search(temperature=1.0), [0.4, 0.3, 0.15, 0.1, 0.05]),
        (Search(temperature=0.5), [p**2 / 0.285 for p in (0.4, 0.3, 0.15, 0.1, 0.05)]),
        (Search(temperature=1.0, top_k=2), [4 / 7, 3 / 7, 0, 0, 0]),
        (Search(temperature=1.0, top_p=0.8), [0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0, 0]),
        (Search(temperature=1.0, top_p=0.1), [1, 0, 0, 0, 0]),
    ],
    ids=["as it is", "cool", "top two", "top 80 %", "the first always"],
)
def test_sampled_tokens_have_the_expected_frequencies(search: Search, expected: list[float]) -> None:
    wanted = torch.tensor(expected).float()
    torch.testing.assert_close(drawn(search), wanted, rtol=0, atol=0.03)
    must_fail(torch.testing.assert_close, drawn(search).flip(0), wanted)


def test_sampling_depends_on_the_seed() -> None:
    model, texts = built(MODELS["transformer"]), rows(11)

    def draw(seed: int) -> list[list[list[int]]]:
        return in_batches(model, texts, Search(temperature=1.5, n_best=2, seed=seed), 11)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"beam": 2, "n_best": 3}, "n_best is 3; allowed: at most beam=2"),
        ({"beam": 2, "temperature": 1.0}, "beam is 2; allowed with a temperature: 1"),
        ({"top_k": 5}, "temperature is 0; allowed with top_k or top_p: more than 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": 1e-40}, "temperature is 1e-40; allowed: 0, or at least 0.001"),
        ({"beam": 2, "length_penalty": 300}, "length_penalty is 300"),
        ({"length_penalty": 2}, "length_penalty is 2.0; allowed with one beam: 1"),
        ({"top_p": 0.0}, "top_p is 0.0"),
    ],
)
def test_invalid_search_options_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput) as refusal:
        read(Search, values)
    assert message in str(refusal.value)
