"""Masked language modelling: tokens of a text that are hidden from the model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.config import read_json
from limelight.data.batching import Batch, even_batches
from limelight.data.ragged import Ragged
from limelight.data.text.running_text import TextData
from limelight.data.text.vocabulary import UNKNOWN_CHARACTER
from limelight.errors import WrongInput
from limelight.models.masked_encoder import MaskedEncoderConfig
from limelight.randomness import generator
from limelight.tasks.masked.filling import (
    GAP,
    MASK,
    MaskedOptions,
    best_fillings,
    fill,
    read_masked,
    token_probabilities,
    write_masked,
)
from limelight.tasks.masked.masking import Masking, continuations
from limelight.tasks.metrics import DESCRIPTIONS
from limelight.tasks.running_text import (
    RunningTextConfig,
    RunningTextState,
    RunningTextTask,
    token_losses,
)
from limelight.tasks.task import (
    Answer,
    Example,
    Goal,
    Input,
    Scores,
    as_text,
    check_record_size,
    record_each,
    unlike_tokens,
)
from limelight.view.capture import capture
from limelight.view.record import Record, attention_maps, most_likely, place_in_encoder

PREDICT_BATCH = 64
EXAMPLES = 64
EXAMPLE_LENGTH = 40  # tokens of an example for a page
FIGURE_LENGTH = 16  # tokens of the example in a figure, so that labels can be read
METRIC_DESCRIPTIONS = DESCRIPTIONS | {
    "loss": "mean of -ln p(hidden token), in nats",
    "accuracy": "share of the hidden tokens that are predicted exactly",
    "perplexity": "exp(loss): as uncertain as a choice between so many equally likely tokens",
}


class MaskedState(RunningTextState):
    """The properties of the data and of the task that prediction needs."""

    share: float = Field(description="share of the tokens that are predicted")
    whole_words: bool = Field(description="whether whole words are hidden")


class Masked(RunningTextTask):
    """Cross-entropy of hidden tokens, given those on both sides."""

    options = MaskedOptions
    metric_descriptions: ClassVar[Mapping[str, str]] = METRIC_DESCRIPTIONS

    _state: MaskedState

    @property
    def goal(self) -> Goal:
        """The metric that selects the best checkpoint."""
        return Goal("accuracy", 1.0)

    @cached_property
    def masking(self) -> Masking:
        """How tokens are hidden."""
        whole = continuations(self.reader) if self._state.whole_words else None
        return Masking(self._state.share, self.reader.size, whole, self.reader.mask, self.reader.special)

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""
        return batch.inputs, batch.lengths

    def predictions(self, batch: Batch) -> int:
        """One per hidden token."""
        return int(self.masking.counts(batch.inputs, batch.lengths).sum())

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """Cross-entropy and accuracy of the hidden tokens.

        In training, other tokens are hidden in each step. In evaluation, the same tokens of an example are
        hidden each time.
        """
        tokens_BT = batch.inputs
        if model.training:
            random_BT3 = torch.rand(*tokens_BT.shape, 3, device=tokens_BT.device)
        else:
            random_BT3 = _fixed_random(batch).to(tokens_BT.device)
        chosen_BT = self.masking.choose(tokens_BT, batch.lengths, random_BT3[..., 0])
        inputs_BT = self.masking.replace(tokens_BT, chosen_BT, random_BT3[..., 1:])
        chosen_N = chosen_BT.flatten().nonzero().squeeze(1)
        x_ND, target_N = model(inputs_BT, batch.lengths, chosen_N), tokens_BT.flatten()[chosen_N]
        loss, right = token_losses(x_ND, cast(nn.Linear, model.output), target_N, smoothing)
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def derived(self, means: Mapping[str, float], dataset: TextData, split: str) -> dict[str, float]:
        """Perplexity."""
        return {"perplexity": math.exp(min(means["loss"], 700.0))}

    @torch.no_grad()
    def predict(
        self,
        model: nn.Module,
        inputs: Sequence[Input],
        options: MaskedOptions | None = None,
        *,
        first: int = 1,
    ) -> list[Answer]:
        """Each text with its missing tokens filled in; the answer to an empty line is empty."""
        options = options or MaskedOptions()
        given = {i: self._read(one, first + i) for i, one in enumerate(inputs) if not _is_empty(one)}
        for i, (_, places) in given.items():
            if not len(places):
                missing = f"nothing is missing in the text; write {MASK} where a token is"
                raise WrongInput(f"input {first + i}: {missing}")
        logits = self._logits(model.eval(), [row for row, _ in given.values()])
        answers = {
            i: self._answer(str(inputs[i]), logits_TV[places], options)
            for (i, (_, places)), logits_TV in zip(given.items(), logits, strict=True)
        }
        return [answers.get(i, Answer("")) for i in range(len(inputs))]

    def _logits(self, model: nn.Module, encoded: list[Tensor]) -> list[Tensor]:
        """(T) per input -> (T, V) per input"""
        if not encoded:
            return []
        rows, device = Ragged.from_rows(encoded), next(model.parameters()).device
        found: dict[int, Tensor] = {}
        for index in even_batches(rows.lengths, PREDICT_BATCH):
            inputs, lengths = rows.pad(index)
            batch = Batch(inputs, inputs, index, lengths).to(device)
            found |= dict(zip(index.tolist(), model(*self.arguments(batch)).cpu(), strict=True))
        return [found[i] for i in range(len(rows))]

    def _answer(self, text: str, logits_NV: Tensor, options: MaskedOptions) -> Answer:
        """The `n_best` texts with all missing tokens filled in."""
        chosen = best_fillings(token_probabilities(logits_NV, self.reader.special), options.n_best)
        best, *others = (Answer(fill(text, tokens, self.reader), p) for p, tokens in chosen)
        return replace(best, others=tuple(others))

    def _read(self, given: Input, number: int) -> tuple[Tensor, Tensor]:
        """-> (T), (N): the ids of a text, and the places of missing tokens"""
        if not isinstance(given, str):
            raise WrongInput(f"input {number}: this model reads text")
        row, places = read_masked(given, self.reader)
        if len(row) > self.context:
            raise WrongInput(f"input {number}: {len(row):,} tokens; this model reads {self.context:,}")
        return row, places

    def unlike_training(self, inputs: Sequence[Input]) -> list[str]:
        """Warnings about tokens that do not occur in training."""
        pieces = [[one for one in GAP.split(str(line)) if one.strip()] for line in inputs]
        return unlike_tokens(
            [
                [
                    both
                    for piece in line
                    for both in zip(
                        self.reader.tokens(piece), self.reader.encode(piece).tolist(), strict=True
                    )
                ]
                for line in pieces
            ],
            self.reader.unknown,
        )

    def sample(self, dataset: TextData, split: str) -> str:
        """Of the lines of the examples with one missing token, that with most words."""
        lines = [
            line.strip()
            for example in self.examples(dataset, split)
            for line in str(example.given).split("\n")
            if line.count(MASK) == 1 and UNKNOWN_CHARACTER not in line
        ]
        if not lines:
            return str(self._example(dataset, split, 0, FIGURE_LENGTH).given)
        return max(lines, key=lambda line: sum(word.isalpha() for word in line.split()))

    def examples(self, dataset: TextData, split: str) -> Iterator[Example]:
        """The beginnings of examples at even distances."""
        size = len(dataset.examples(split))
        for number in range(0, size, max(1, size // EXAMPLES)):
            yield self._example(dataset, split, number, EXAMPLE_LENGTH)

    def figure_example(self, model: nn.Module, dataset: TextData, split: str) -> Example:
        """The beginning of the first example."""
        return self._example(dataset, split, 0, FIGURE_LENGTH)

    def _example(self, dataset: TextData, split: str, number: int, length: int) -> Example:
        """The first words of an example; some of its tokens are missing."""
        batch = dataset.batch(split, torch.tensor([number]))
        row_1T = batch.inputs[:, :length]
        hidden_1T = self.masking.choose(row_1T, None, _fixed_random(batch)[:, :length, 0])
        given = write_masked(row_1T[0], hidden_1T[0], self.reader)
        return Example(given, (fill(given, row_1T[hidden_1T].tolist(), self.reader),))

    def record(self, model: nn.Module, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        """The text with all missing tokens filled in, and all attention maps of each input; or its error.

        A text in which nothing is missing has attention maps, too.
        """
        model.eval()
        return record_each(inputs, lambda given, number: self._record(model, given, number))

    def _record(self, model: nn.Module, given: Input, number: int) -> Record:
        row, places = self._read(given, number)
        if not len(row):
            raise WrongInput(f"input {number}: the text is empty")
        check_record_size(len(row), f"{len(row):,} tokens")
        found = capture(model, row.unsqueeze(0).to(next(model.parameters()).device))
        logits_TV = found.output[0].cpu()
        answer = self._answer(str(given), logits_TV[places], MaskedOptions())
        names = self.reader.item_names(row)
        for place in places.tolist():
            names[place] = MASK
        maps, weights = attention_maps(found.attentions, place_in_encoder)
        likely_TV = token_probabilities(logits_TV, self.reader.special)
        return Record(
            given=as_text(str(given)),
            answer=answer.text,
            probability=answer.probability,
            sides={"source": tuple(names)},
            maps=maps,
            weights=weights,
            steps=tuple(most_likely(one, self.reader.name) for one in likely_TV),
            stepped="source",
        )


def _is_empty(given: Input) -> bool:
    return isinstance(given, str) and not given.strip()


def _fixed_random(batch: Batch) -> Tensor:
    """-> (B, T, 3), random numbers that depend only on the index of each example"""
    length = batch.inputs.shape[1]
    rows = [torch.rand(length, 3, generator=generator(0, "hidden", i)) for i in batch.index.tolist()]
    return torch.stack(rows) if rows else torch.zeros(0, length, 3)


class MaskedConfig(RunningTextConfig):
    """Hidden tokens of running text."""

    models = (MaskedEncoderConfig,)

    kind: Literal["masked"] = Field("masked", description="the kind of task")
    share: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are predicted")
    whole_words: bool = Field(
        False, description="whether all tokens of a word are hidden together, rather than single tokens"
    )

    def task_of(self, data: TextData) -> Masked:
        """The task that a data set defines."""
        return Masked(
            MaskedState(
                reader=data.reader, context=data.context, share=self.share, whole_words=self.whole_words
            )
        )

    def restore(self, state: str) -> Masked:
        """Make the task from its state, for prediction."""
        return Masked(read_json(MaskedState, state, "data.json"))
