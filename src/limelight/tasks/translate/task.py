"""A sentence in another language."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config, read_json
from limelight.data.batching import Batch, even_batches
from limelight.data.ragged import Ragged
from limelight.data.synthetic.phrasebook import Phrasebook
from limelight.data.text.parallel_corpus import PairFiles
from limelight.data.text.translation_data import Language, PairData, VocabularyConfig, split_some
from limelight.errors import WrongInput
from limelight.models.recurrent import Recurrent
from limelight.models.sizes import Sizes
from limelight.models.transformer import Transformer
from limelight.nn import cross_entropy, padding_mask
from limelight.tasks.examples import ExamplesTask
from limelight.tasks.task import Answer, Goal, Judgement, Scores, check_length
from limelight.tasks.translate.metrics import judge_translations
from limelight.tasks.translate.search import Hypothesis, Search, Sources, Writer, decode

SEARCH = Search(beam=4)  # the default search of `predict`, pages and pictures
GREEDY = Search(beam=1)  # the default search of evaluation
TOGETHER = 64  # sentences that are written at once


class TranslateConfig(Config):
    kind: Literal["translate"] = "translate"
    data: Annotated[Phrasebook | PairFiles, Field(discriminator="kind")]
    vocabulary: VocabularyConfig = VocabularyConfig()

    def load(self, seed: int) -> "Translate":
        return Translate.of(PairData.of(self.data.load(seed), self.vocabulary), self.vocabulary.split)

    def restore(self, state: str) -> "Translate":
        return Translate(read_json(TranslateState, state, "data.json"))


class TranslateState(Config):
    """What stays of the data when only translation is wanted."""

    source: Language
    target: Language
    longest: int = Field(ge=1)


class Translate(ExamplesTask[PairData]):
    """Cross-entropy of each next token, given those before it and the source."""

    def __init__(self, state: TranslateState, data: PairData | None = None, split: float = 0.0) -> None:
        super().__init__(data)
        self._state, self._split = state, split
        self.source, self.target = state.source, state.target

    @classmethod
    def of(cls, data: PairData, split: float = 0.0) -> "Translate":
        """With so many of the subwords cut in two, while training."""
        longest = max(int(lengths.max()) for split in data.splits.values() for lengths in split.lengths)
        if split:
            longest *= 2
        return cls(TranslateState(source=data.source, target=data.target, longest=longest), data, split)

    @property
    def goal(self) -> Goal:
        return Goal("accuracy", 1.0)

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            outputs=self.target.size,
            vocabulary=self.source.size,
            longest=self._state.longest,
            shared=self.source.vocabulary == self.target.vocabulary,
        )

    @property
    def state(self) -> str:
        return self._state.model_dump_json()

    def lengths(self, split: str) -> Tensor:
        """Of both sides, so that neither has much padding."""
        return sum(self.examples(split).lengths, start=torch.tensor(0))

    def predictions(self, batch: Batch) -> int:
        return batch.target_tokens - len(batch)  # nothing foretells the begin mark

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        lengths = None if batch.target_lengths is None else batch.target_lengths - 1
        return batch.inputs, batch.targets[:, :-1], batch.lengths, lengths

    def blank(self, count: int) -> Batch:
        sentences = torch.zeros(count, self._state.longest, dtype=torch.long)
        return Batch(sentences, sentences, torch.arange(count))

    def score(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        if not (model.training and self._split):
            return self._score(model, batch, smoothing)
        spelled = self._spelled(batch)
        scores = self._score(model, spelled, smoothing)
        # Sums are over the predictions that the batch was counted with, however it was spelled since.
        share = self.predictions(batch) / self.predictions(spelled)
        return Scores(scores.loss * share, {name: value * share for name, value in scores.sums.items()})

    def _spelled(self, batch: Batch) -> Batch:
        """The same sentences, some of their subwords cut in two."""
        inputs, lengths = split_some(batch.inputs, batch.lengths, self.source.halves, self._split)
        targets, target_lengths = split_some(
            batch.targets, batch.target_lengths, self.target.halves, self._split
        )
        return Batch(inputs, targets, batch.index, lengths, target_lengths)

    def _score(self, model: nn.Module, batch: Batch, smoothing: float) -> Scores:
        x_ND, next_BT = model(*self.arguments(batch), logits=False), batch.targets[:, 1:]
        if batch.target_lengths is None:
            next_N = next_BT.flatten()
        else:
            next_N = next_BT[padding_mask(batch.target_lengths - 1, next_BT.shape[1]).squeeze(1)]
        loss, right = cross_entropy(x_ND, cast(nn.Linear, model.output), next_N, smoothing)
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def sample(self, split: str) -> str:
        return self.data.texts[split][0][0]

    def judge(self, model: nn.Module, split: str, search: Search | None = None) -> Judgement:
        """Every source once, against all of its translations."""
        references = self.data.references(split)
        answers = self.predict(model, list(references), search or GREEDY)
        return judge_translations([answer.text for answer in answers], list(references.values()))

    def predict(
        self, model: nn.Module, lines: Sequence[str], search: Search | None = None, *, first: int = 1
    ) -> list[Answer]:
        """One translation per line, in the order of the lines; `first` is the number of the first one."""
        search = search or SEARCH
        rows = [self.encode(model, line, i) for i, line in enumerate(lines, first) if line.strip()]
        found = iter(self.decode(model, Ragged.of(rows), search) if rows else [])
        # An empty line stays one: a filter's lines answer to the lines that came in.
        empty = Answer("", 1.0, (Answer("", 1.0),) * (search.n_best - 1))
        return [self._answer(next(found)) if line.strip() else empty for line in lines]

    def encode(self, model: nn.Module, line: str, number: int = 1) -> Tensor:
        """-> (S), if the model can read so many"""
        if not line.strip():
            raise WrongInput(f"input {number}: the line is empty")
        row, longest = self.source.encode(line), cast(Transformer | Recurrent, model).longest
        check_length(len(row), self._state.longest, number)
        if longest is not None and len(row) > longest:
            raise WrongInput(f"input {number}: {len(row):,} tokens; this model has {longest:,} positions")
        return row

    def tokens(self, line: str) -> list[str]:
        """A name for each token of a source sentence, as `encode` reads it; unknown ones are marked."""
        return self.source.tokens(line)

    def show(self, row: Tensor) -> list[str]:
        """A name for each token of an encoded source sentence."""
        return self.source.show(row)

    def lines_of(self, path: Path) -> list[str]:
        """The lines of a file of source sentences."""
        lines = super().lines_of(path)
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                hint = "give the source sentences alone, as `cut -f1` makes them"
                raise WrongInput(f"{path}:{number}: the line has a tab, as pairs of sentences do; {hint}")
        return lines

    def decode(self, model: nn.Module, rows: Ragged, search: Search) -> list[list[Hypothesis]]:
        """Sentences of similar length are written together; what comes out is in the order of the rows."""
        device = next(model.eval().parameters()).device
        writer: Writer = cast(Transformer | Recurrent, model).writer()
        found: dict[int, list[Hypothesis]] = {}
        for index in even_batches(rows.lengths, TOGETHER):
            tokens, lengths = rows.pad(index)
            # Twice as many tokens as the source, and some: nothing goes on for ever.
            most = [
                min(2 * length + 20, writer.longest or 2 * length + 20)
                for length in rows.lengths[index].tolist()
            ]
            sources = Sources(
                tokens.to(device),
                None if lengths is None else lengths.to(device),
                most,
                self.target.begin,
                self.target.end,
            )
            found |= zip(index.tolist(), decode(writer, sources, search), strict=True)
        return [found[i] for i in range(len(rows))]

    def _answer(self, hypotheses: list[Hypothesis]) -> Answer:
        rows = [torch.tensor(hypothesis.tokens, dtype=torch.long) for hypothesis in hypotheses]
        best, *others = (
            Answer(self.target.write(row), math.exp(hypothesis.log_probability))
            for row, hypothesis in zip(rows, hypotheses, strict=True)
        )
        return replace(best, others=tuple(others))
