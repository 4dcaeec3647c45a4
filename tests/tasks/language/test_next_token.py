"""Records of a text that grows token by token; the models are not trained."""

import json
import math
from collections import Counter
from typing import Any

import pytest
import torch
from support import must_fail, not_none

from limelight.data.text.text_vocabulary import END, TextBytes, TextCharacters, TextVocabulary
from limelight.errors import WrongInput
from limelight.models.decoder_only import DecoderOnlyConfig
from limelight.tasks.language.generation import LanguageOptions
from limelight.tasks.language.next_token import CANDIDATES, add_tokens, whole_characters
from limelight.tasks.language.task import Language, LanguageState
from limelight.tasks.task import Input
from limelight.view.prompt import Prompt
from limelight.view.record import Record

CONTEXT = 23
LETTERS = TextCharacters(known=" abcdefghijklmnopqrstuvwxyzé😀")
BYTES = TextBytes()
TEXT = "a red cat"


class Subject:
    def __init__(self, reader: Any = LETTERS) -> None:
        self.task = Language(LanguageState(reader=reader, context=CONTEXT, start=END))
        torch.manual_seed(1)
        config = DecoderOnlyConfig(width=22, heads=1, hidden=29, depth=2)
        self.model = config.build(self.task.sizes).eval()
        torch.nn.init.normal_(self.model.embedding.weight, std=0.3)  # probabilities that differ

    def record(self, given: Input | Prompt) -> Record:
        (found,) = self.task.record(self.model, [given])
        if isinstance(found, WrongInput):
            raise found
        return found

    def grow(self, **fields: Any) -> Record:
        return self.record(Prompt(**{"given": TEXT} | fields))

    @torch.inference_mode()
    def logits(self, *added: int) -> torch.Tensor:
        """(T, V)"""
        tokens = [*self.task.reader.encode(TEXT).tolist(), *added]
        result: torch.Tensor = self.model(torch.tensor([tokens]))[0]
        return result


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject()


def shown_at(record: Record, position: int) -> torch.Tensor:
    """The probabilities of the candidates as the page computes them, (T, CANDIDATES)."""
    found = not_none(record.continuation)
    temperature = found.temperatures[position]
    rows = [
        [(one.probability / step[0].probability) ** (1 / temperature) / total[position] for one in step]
        for step, total in zip(record.steps, found.totals, strict=True)
    ]
    return torch.tensor(rows)


def check_temperatures(record: Record, logits: torch.Tensor) -> None:
    for position, temperature in enumerate(not_none(record.continuation).temperatures):
        expected = (logits.double() / temperature).softmax(-1).topk(CANDIDATES).values.float()
        torch.testing.assert_close(shown_at(record, position), expected, rtol=1e-4, atol=1e-6)


def test_a_page_can_compute_the_exact_probabilities_at_every_temperature(subject: Subject) -> None:
    logits = subject.logits()
    check_temperatures(subject.record(TEXT), logits)
    must_fail(check_temperatures, subject.record(TEXT), logits[:, :CANDIDATES])  # without the rest
    must_fail(check_temperatures, subject.record(TEXT), logits / 1.1)


def test_the_candidates_after_the_last_token_have_their_ids(subject: Subject) -> None:
    record = subject.record(TEXT)
    found = not_none(record.continuation)
    assert [subject.task.reader.name(i) for i in found.choices] == [one.text for one in record.steps[-1]]
    assert found.choices == tuple(subject.logits()[-1].topk(CANDIDATES).indices.tolist())
    assert (found.tokens, found.ended, found.room) == ((), False, CONTEXT - len(TEXT))


def test_added_tokens_are_a_part_of_the_text_and_of_the_maps(subject: Subject) -> None:
    (e, x) = subject.task.reader.encode("éx").tolist()
    record = subject.grow(tokens=(e, x))
    assert record.given == f"{TEXT}éx"
    assert record.sides["source"] == (*TEXT.replace(" ", "␣"), "é", "x")
    assert record.layers()[0].shape[1:] == (len(TEXT) + 2, len(TEXT) + 2)
    assert not_none(record.continuation).tokens == (e, x)
    assert not_none(record.continuation).room == CONTEXT - len(TEXT) - 2
    check_temperatures(record, subject.logits(e, x))
    must_fail(check_temperatures, record, subject.logits(x, e))
    assert record.weights == subject.record(f"{TEXT}éx").weights


def test_at_temperature_0_the_most_likely_token_is_added(subject: Subject) -> None:
    best = not_none(subject.record(TEXT).continuation).choices[0]
    assert not_none(subject.grow(temperature=0.0).continuation).tokens == (best,)
    grown = subject.grow(temperature=0.0, tokens=(best,))
    expected = subject.task.predict(subject.model, [TEXT], LanguageOptions(length=2))[0].text
    assert grown.given == TEXT + expected


def check_frequencies(drawn: Counter[int], record: Record, temperature: float) -> None:
    """The sampled tokens are as frequent as the page shows, within four standard errors."""
    found, count = not_none(record.continuation), drawn.total()
    likely = shown_at(record, found.temperatures.index(temperature))[-1].tolist()
    for token, probability in list(zip(found.choices, likely, strict=True))[:5]:
        error = math.sqrt(probability * (1 - probability) / count)
        assert abs(drawn[token] / count - probability) < 4 * error


def test_tokens_are_sampled_with_the_shown_probabilities(subject: Subject) -> None:
    reader = subject.task.reader
    start = reader.encode(TEXT).tolist()
    prompts = [Prompt(given=TEXT, temperature=0.8, seed=seed) for seed in range(300)]
    drawn = Counter(add_tokens(subject.model, start, one, reader, CONTEXT)[0] for one in prompts)
    assert not_none(subject.record(prompts[7]).continuation).tokens[0] in drawn
    check_frequencies(drawn, subject.record(TEXT), 0.8)
    must_fail(check_frequencies, drawn, subject.record(TEXT), 0.3)


def test_the_same_seed_gives_the_same_token(subject: Subject) -> None:
    first, second = (subject.grow(temperature=1.0, seed=5) for _ in range(2))
    assert first == second


def test_the_end_of_a_document_is_a_token_without_text(subject: Subject) -> None:
    record = subject.grow(tokens=(END,))
    assert record.given == TEXT
    assert record.sides["source"][-1] == "[end]"
    assert not_none(record.continuation).ended
    assert not not_none(subject.grow(tokens=(END, 5)).continuation).ended


def test_a_text_may_begin_without_a_prompt(subject: Subject) -> None:
    record = subject.grow(given="", temperature=1.0)
    assert len(record.sides["source"]) == 2  # the token before the text is in the maps
    assert record.sides["source"][0] == "[end]"


WRONG = {
    "token id is 31; allowed: 0 to 30": {"tokens": (3, LETTERS.size)},
    "temperature is 0.0005; allowed: 0, or at least 0.001": {"temperature": 0.0005},
    "input 1: 24 tokens; this model reads 23": {"given": "a" * CONTEXT, "temperature": 1.0},
    "input 1: 25 tokens; this model reads 23": {"given": "a" * 22, "tokens": (5, 5, 5)},
}


@pytest.mark.parametrize(("message", "fields"), WRONG.items(), ids=range(len(WRONG)))
def test_invalid_tokens_and_temperatures_are_refused(
    subject: Subject, message: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(WrongInput) as error:
        subject.grow(**fields)
    assert str(error.value) == message


def test_the_context_can_be_filled_to_the_last_token(subject: Subject) -> None:
    record = subject.grow(given="a" * (CONTEXT - 1), temperature=1.0)
    assert not_none(record.continuation).room == 0
    assert record.answer


def test_a_part_of_a_character_is_shown_in_the_maps_and_not_in_the_text() -> None:
    subject, parts = Subject(BYTES), [byte + 2 for byte in "é😀".encode()]
    texts = [subject.grow(tokens=tuple(parts[:count])).given for count in range(len(parts) + 1)]
    assert texts == [TEXT, TEXT, *[f"{TEXT}é"] * 4, f"{TEXT}é😀"]
    record = subject.grow(tokens=tuple(parts[:3]))
    assert record.sides["source"][-3:] == ("\\xc3", "\\xa9", "\\xf0")
    assert Record.model_validate_json(record.model_dump_json()) == record


def check_joined(reader: TextVocabulary, tokens: list[int]) -> None:
    """The text of more tokens begins with that of fewer ones."""
    whole = whole_characters(tokens, reader)
    assert all(whole.startswith(whole_characters(tokens[:end], reader)) for end in range(len(tokens)))


def test_the_text_only_grows() -> None:
    random = torch.Generator().manual_seed(1)
    for _ in range(50):
        check_joined(BYTES, torch.randint(0, BYTES.size, (17,), generator=random).tolist())


def test_a_record_of_an_older_version_is_still_read(subject: Subject) -> None:
    older = subject.record(TEXT).model_dump(mode="json")
    del older["continuation"]
    assert Record.model_validate_json(json.dumps(older)).continuation is None
