"""An exported model is compared with its model on the validation data of the run."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from limelight.bridge.ctranslate2.language import LanguageEngine
from limelight.bridge.ctranslate2.translation import TranslationEngine
from limelight.data.batching import Batch
from limelight.data.ragged import Ragged
from limelight.data.text.running_text import TextData
from limelight.data.text.translation_data import PairData
from limelight.errors import Stopped
from limelight.models.decoder_only import LanguageModel
from limelight.models.transformer import Transformer
from limelight.progress import track
from limelight.randomness import generator
from limelight.tasks.language.generation import LanguageOptions
from limelight.tasks.language.next_token import following
from limelight.tasks.language.task import Language
from limelight.tasks.translate.metrics import judge_translations
from limelight.tasks.translate.search import Hypothesis, Search
from limelight.tasks.translate.task import Translate

SENTENCES = 1_000  # that are translated
TOKENS = 50_000  # of running text whose probabilities are compared
LOGITS = 2**23  # that are in memory at once
TEXTS, NEW = 20, 20  # texts that are generated, and their length
# Rounding in float32 changes log-probabilities by 1e-6 to 1e-4. If two tokens are closer than this, either
# may be the most likely one.
CLOSE = 1e-3
RANDOM = 48  # sequences, and tokens of the longest, if a run has no data


def split_of(dataset: Any) -> str:
    """The split that exported models are compared on."""
    return "validation" if "validation" in dataset.splits else dataset.held_out


@torch.inference_mode()
def compare_translations(
    task: Translate, model: Transformer, engine: TranslationEngine, dataset: PairData | None
) -> str:
    """What is equal in the greedy translations of both; refused if they differ by more than rounding.

    Without data, sources are random.
    """
    rows = _random_sources(task, model) if dataset is None else _sources(task, model, dataset)
    ours, theirs = (task.decode(one, Ragged.from_rows(rows), Search()) for one in (model, engine))
    equal = 0
    for row, (mine,), (other,) in zip(rows, ours, theirs, strict=True):
        if mine.tokens == other.tokens:
            _check_close(mine.log_probability, other.log_probability, len(mine.tokens) + 1)
            equal += 1
            continue
        place, tokens = _first_difference(_marked(mine, task), _marked(other, task))
        written = torch.tensor([[task.target.begin, *mine.tokens[:place]]])
        logits_V = model(row.unsqueeze(0), written)[-1]
        _check_tie(logits_V, tokens)
    where = "random sources" if dataset is None else f"the {split_of(dataset)} split"
    return _equal(equal, len(rows), f"greedy translations of {where}")


@torch.inference_mode()
def compare_bleu(task: Translate, model: Transformer, engine: TranslationEngine, dataset: PairData) -> str:
    """BLEU of the greedy translations of both."""
    split = split_of(dataset)
    references = dict(list(dataset.references(split).items())[:SENTENCES])
    options = task.read_options({}, evaluating=True)
    before, after = (
        judge_translations(
            [answer.text for answer in task.predict(one, list(references), options)],
            list(references.values()),
        ).values["bleu"]
        for one in (model, engine)
    )
    return (
        f"BLEU of the {split} split: {after:.2f} with int8, {before:.2f} with float32 ({after - before:+.2f})"
    )


@torch.inference_mode()
def compare_texts(
    task: Language, model: LanguageModel, engine: LanguageEngine, dataset: TextData | None
) -> str:
    """What is equal in both: the log-probabilities of a text and greedy continuations of its parts.

    Without data, texts are random.
    """
    data = _RandomTexts(task) if dataset is None else dataset
    split, count = split_of(data), 0
    for ours_N, theirs_N in _both(model, engine, data):
        for ours, theirs in zip(ours_N.tolist(), theirs_N.tolist(), strict=True):
            _check_close(ours, theirs, 1)
        count += len(ours_N)
    inputs = data.batch(split, torch.arange(min(TEXTS, len(data.examples(split))))).inputs
    prompts = inputs[:, : max(1, inputs.shape[1] // 2)].tolist()
    equal = sum(_same_text(task, model, engine, prompt) for prompt in prompts)
    probabilities = f"{count:,} log-probabilities of the {split} split agree"
    return f"{probabilities}; {_equal(equal, len(prompts), 'greedy continuations')}"


@torch.inference_mode()
def compare_perplexity(model: LanguageModel, engine: LanguageEngine, dataset: TextData) -> str:
    """The perplexity of both."""
    sums, count = [0.0, 0.0], 0
    for both in _both(model, engine, dataset):
        sums = [total - float(likely_N.sum()) for total, likely_N in zip(sums, both, strict=True)]
        count += len(both[0])
    before, after = (math.exp(min(total / count, 700.0)) for total in sums)
    text = f"perplexity of the {split_of(dataset)} split: {after:.3f} with int8, {before:.3f} with float32"
    return f"{text} ({after / before - 1:+.2%})"


def _sources(task: Translate, model: Transformer, dataset: PairData) -> list[torch.Tensor]:
    longest = model.longest or math.inf
    lines = list(dataset.references(split_of(dataset)))[:SENTENCES]
    rows = [task.source.encode(line) for line in lines]
    return [row for row in rows if len(row) <= longest]


def _random_sources(task: Translate, model: Transformer) -> list[torch.Tensor]:
    draw, longest = generator(1, "sources"), min(model.longest or RANDOM, RANDOM)
    lengths = [1 + i % (longest - 1) for i in range(RANDOM)]
    rows = [torch.randint(task.source.size, (length,), generator=draw) for length in lengths]
    return [torch.cat((row, torch.tensor([task.source.end]))) for row in rows]


def _marked(hypothesis: Hypothesis, task: Translate) -> list[int]:
    return [*hypothesis.tokens, task.target.end]


def _first_difference(ours: Sequence[int], theirs: Sequence[int]) -> tuple[int, tuple[int, int]]:
    """The first place where two sequences differ, and what they have there."""
    for place, tokens in enumerate(zip(ours, theirs, strict=False)):
        if tokens[0] != tokens[1]:
            return place, tokens
    raise Stopped("ctranslate2 ends a sequence at another place than torch")


def _check_tie(logits: torch.Tensor, tokens: tuple[int, int]) -> None:
    """Different tokens must have nearly the same probability."""
    likely = logits.log_softmax(-1)[list(tokens)].tolist()
    _check_close(likely[0], likely[1], 1)


def _check_close(ours: float, theirs: float, tokens: int) -> None:
    """The log-probabilities of so many tokens must be nearly equal; NaN is not."""
    if not abs(ours - theirs) <= CLOSE * tokens:
        raise Stopped(
            f"the exported model differs from the model: log-probability {theirs:.5f} instead of {ours:.5f}; "
            "nothing was written"
        )


def _equal(equal: int, count: int, what: str) -> str:
    rest = "" if equal == count else f"; {count - equal:,} differ where two tokens are equally likely"
    return f"{equal:,} of {count:,} {what} are equal{rest}"


def _both(model: LanguageModel, engine: LanguageEngine, dataset: "TextData | _RandomTexts") -> Any:
    """The log-probabilities (N) of the next tokens by torch and by CTranslate2, some windows at a time."""
    split = split_of(dataset)
    windows, width = dataset.examples(split), dataset.context
    count = min(len(windows), max(1, TOKENS // width))
    index = torch.linspace(0, len(windows) - 1, count).long().unique()
    parts = index.split(max(1, LOGITS // (width * model.embedding.num_embeddings)))
    for part in track(parts, len(parts)):
        batch = dataset.batch(split, part)
        real_BT, targets_BT1 = batch.targets >= 0, batch.targets.clamp(min=0).unsqueeze(2)
        likely = (
            model(batch.inputs).log_softmax(-1),
            engine.log_probabilities(batch.inputs),
        )
        yield [one.gather(2, targets_BT1).squeeze(2)[real_BT] for one in likely]


class _RandomTexts:
    """Windows of random tokens, in place of a data set."""

    def __init__(self, task: Language) -> None:
        self.context = max(1, min(RANDOM, task.context - 1))
        self.splits = {"random": range(RANDOM)}
        shape = (RANDOM, self.context + 1)
        self._tokens_NT = torch.randint(task.reader.size, shape, generator=generator(1, "texts"))

    def examples(self, split: str) -> range:
        """One per window."""
        return self.splits[split]

    def batch(self, split: str, index: torch.Tensor) -> Batch:
        """The windows with these indices (B)."""
        tokens_BT = self._tokens_NT[index]
        return Batch(tokens_BT[:, :-1], tokens_BT[:, 1:], index)

    held_out = "random"


def _same_text(task: Language, model: LanguageModel, engine: LanguageEngine, prompt: list[int]) -> bool:
    options = LanguageOptions(length=NEW)
    ours, theirs = (
        list(following(one, prompt, task.context, options, task.reader)) for one in (model, engine)
    )
    for (mine, likely), (other, as_likely) in zip(ours, theirs, strict=False):
        _check_close(likely, as_likely, 1)
        if mine != other:
            return False
    return True
