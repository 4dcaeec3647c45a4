"""Translation from one language to another."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config, read, read_json
from limelight.data.batching import Batch, even_batches
from limelight.data.ragged import Ragged
from limelight.data.synthetic.phrasebook import Phrasebook
from limelight.data.text.parallel_corpus import PairFiles
from limelight.data.text.translation_data import Language, PairData, VocabularyConfig, split_subwords
from limelight.errors import WrongInput
from limelight.models.recurrent import Recurrent, RecurrentConfig
from limelight.models.sizes import Sizes
from limelight.models.transformer import Transformer, TransformerConfig
from limelight.nn import cross_entropy, padding_mask
from limelight.nn.tap import is_edited
from limelight.progress import track
from limelight.tasks.metrics import Judgement
from limelight.tasks.task import (
    Answer,
    Example,
    Goal,
    Input,
    Scores,
    Task,
    TaskConfig,
    as_text,
    check_length,
    check_record_size,
    unlike_lengths,
    unlike_tokens,
)
from limelight.tasks.translate.alignment import crossings, word_alignment
from limelight.tasks.translate.metrics import METRIC_DESCRIPTIONS, judge_translations
from limelight.tasks.translate.records import capture_translation, record_translation
from limelight.tasks.translate.search import Generator, Hypothesis, Search, Sources, decode
from limelight.view.record import Record

BEAMS = 4  # the default of `predict` and records
TOGETHER = 64  # sentences that are translated at once
LONGEST_FIGURE = 10  # maximum number of words of a source sentence in a figure
TRIED = 50  # sentences that are translated to find one whose words change their order
LONGEST_EXAMPLE = 64  # tokens of a source; longer records are hard to read and make the page large


class TranslateConfig(TaskConfig):
    """Translation from one language to another."""

    models = (TransformerConfig, RecurrentConfig)
    path_data = "pairs"

    kind: Literal["translate"] = Field("translate", description="the kind of task")
    data: Annotated[Phrasebook | PairFiles, Field(discriminator="kind", description="the data set")]
    vocabulary: VocabularyConfig = Field(
        VocabularyConfig(), description="the vocabularies of source and target"
    )

    def load(self, seed: int) -> tuple["Translate", PairData]:
        """Load the data set, and make the task from it."""
        data = PairData.from_pairs(self.data.load(seed), self.vocabulary)
        return Translate.of(data, self.vocabulary.split), data

    def load_from(self, seed: int, start: Task[Any]) -> tuple["Translate", PairData]:
        """Sentences are read and written in the languages of the task to start from."""
        if not isinstance(start, Translate):
            raise WrongInput("the run to start from is not one of translation, whose vocabularies are needed")
        pairs = self.data.load(seed)
        sizes = f"{start.source.size:,} and {start.target.size:,} {start.target.vocabulary.kind}"
        notes = (*pairs.notes, f"vocabularies: the {sizes} of the run to start from")
        data = PairData.encode(pairs, start.source, start.target, notes)
        return Translate.of(data, self.vocabulary.split), data

    def load_other(self, task: "Translate", path: Path) -> PairData:
        """Sentence pairs of other files."""
        files = self.data if isinstance(self.data, PairFiles) else PairFiles()
        pairs = files.model_copy(update={"path": str(path)}).load_other()
        return PairData.encode(pairs, task.source, task.target, pairs.notes)

    def restore(self, state: str) -> "Translate":
        """Make the task from its state, for translation."""
        return Translate(read_json(TranslateState, state, "data.json"))


class TranslateState(Config):
    """The properties of the data that translation needs."""

    source: Language = Field(description="the language of the sources")
    target: Language = Field(description="the language of the translations")
    longest: int = Field(ge=1, description="length of the longest sentence of training, in tokens")


class TranslateOptions(Search):
    """How translations are searched for, and what is returned with them."""

    alignment: bool = Field(False, description="add the word alignment")


class Translate(Task[PairData]):
    """Cross-entropy of each next token, given the source and the tokens before it."""

    options = TranslateOptions
    metric_descriptions = METRIC_DESCRIPTIONS

    def __init__(self, state: TranslateState, split: float = 0.0) -> None:
        self._state, self._split = state, split
        self.source, self.target = state.source, state.target

    @classmethod
    def of(cls, data: PairData, split: float = 0.0) -> "Translate":
        """The task that a data set defines; `split` is the share of subwords that training splits in two."""
        longest = max(int(lengths.max()) for split in data.splits.values() for lengths in split.lengths)
        if split:
            longest *= 2
        return cls(TranslateState(source=data.source, target=data.target, longest=longest), split)

    @property
    def goal(self) -> Goal:
        """The metric that selects the best checkpoint."""
        return Goal("accuracy", 1.0)

    @property
    def sizes(self) -> Sizes:
        """Data-dependent model dimensions."""
        return Sizes(
            outputs=self.target.size,
            vocabulary=self.source.size,
            longest=self._state.longest,
            shared=self.source.has_ids_of(self.target),
        )

    @property
    def state(self) -> str:
        """JSON: what prediction needs besides the weights."""
        return self._state.model_dump_json()

    def predictions(self, batch: Batch) -> int:
        """One per target token except the begin mark."""
        return batch.target_tokens - len(batch)

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""
        lengths = None if batch.target_lengths is None else batch.target_lengths - 1
        return batch.inputs, batch.targets[:, :-1], batch.lengths, lengths

    def blank(self, count: int) -> Batch:
        """A batch of `count` examples without content, as long as the longest of training."""
        sentences = torch.zeros(count, self._state.longest, dtype=torch.long)
        return Batch(sentences, sentences, torch.arange(count))

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """Cross-entropy and accuracy of the next token."""
        if not (model.training and self._split):
            return self._loss(model, batch, smoothing)
        split = self._split_subwords(batch)
        scores = self._loss(model, split, smoothing)
        # Sums are over the predictions of the batch as it was before its subwords were split.
        share = self.predictions(batch) / self.predictions(split)
        return Scores(scores.loss * share, {name: value * share for name, value in scores.sums.items()})

    def _split_subwords(self, batch: Batch) -> Batch:
        """The same sentences, with some of their subwords split in two."""
        inputs, lengths = split_subwords(batch.inputs, batch.lengths, self.source.halves, self._split)
        targets, target_lengths = split_subwords(
            batch.targets, batch.target_lengths, self.target.halves, self._split
        )
        return Batch(inputs, targets, batch.index, lengths, target_lengths)

    def _loss(self, model: nn.Module, batch: Batch, smoothing: float) -> Scores:
        x_ND, next_BT = model(*self.arguments(batch), logits=False), batch.targets[:, 1:]
        if batch.target_lengths is None:
            next_N = next_BT.flatten()
        else:
            next_N = next_BT[padding_mask(batch.target_lengths - 1, next_BT.shape[1]).squeeze(1)]
        loss, right = cross_entropy(x_ND, cast(nn.Linear, model.output), next_N, smoothing)
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def sample(self, dataset: PairData, split: str) -> str:
        """The source of the first pair."""
        return dataset.texts[split][0][0]

    def examples(self, dataset: PairData, split: str) -> Iterator[Example]:
        """Each source that is short enough for a record, with all of its translations."""
        for source, targets in dataset.references(split).items():
            if len(self.source.encode(source)) <= LONGEST_EXAMPLE:
                yield Example(source, tuple(targets))

    def figure_example(self, model: nn.Module, dataset: PairData, split: str) -> Example:
        """A source whose translation has its words in another order."""
        source = dataset.example or self._reordered_source(model, dataset, split)
        return Example(source, tuple(dataset.references(split).get(source, ())))

    def _reordered_source(self, model: nn.Module, dataset: PairData, split: str) -> str:
        short = [source for source, _ in dataset.texts[split] if len(source.split()) <= LONGEST_FIGURE]
        lines = short[:TRIED] or [self.sample(dataset, split)]
        answers = self.predict(model, lines, self.read_options({"alignment": True}))
        return max(zip(lines, answers, strict=True), key=lambda pair: crossings(pair[1].alignment))[0]

    def read_options(self, given: Mapping[str, Any], *, evaluating: bool = False) -> TranslateOptions:
        """Validated options; by default one beam for evaluation and sampling, else at least four."""
        self.check_options(given)
        if given.get("seed") is not None and not given.get("temperature"):
            raise WrongInput("seed has an effect only with a temperature")
        n_best = given.get("n_best")
        beam = 1 if evaluating or given.get("temperature") else BEAMS
        if beam > 1 and isinstance(n_best, int):
            beam = max(beam, n_best)
        return read(TranslateOptions, {"beam": beam, **given})

    def evaluate_answers(
        self, model: nn.Module, dataset: PairData, split: str, options: TranslateOptions | None = None
    ) -> Judgement:
        """BLEU, chrF and exact matches. Each source is translated once, and compared with all references."""
        references = dataset.references(split)
        options = options or self.read_options({}, evaluating=True)
        answers = self.predict(model, list(references), options.model_copy(update={"probability": False}))
        return judge_translations([answer.text for answer in answers], list(references.values()))

    def predict(
        self,
        model: nn.Module,
        inputs: Sequence[Input],
        options: TranslateOptions | None = None,
        *,
        first: int = 1,
    ) -> list[Answer]:
        """One translation per line, in order; the translation of an empty line is empty."""
        if any(isinstance(one, Tensor) for one in inputs):
            raise WrongInput("this model reads lines of text, not tensors")
        options, lines = options or self.read_options({}), [str(line) for line in inputs]
        rows = [self.encode(model, line, i) for i, line in enumerate(lines, first) if line.strip()]
        found = iter(self.decode(model, Ragged.from_rows(rows), options) if rows else [])
        empty = Answer("", 1.0, others=(Answer("", 1.0),) * (options.n_best - 1))
        answers = [self._answer(next(found)) if line.strip() else empty for line in lines]
        if options.alignment:
            answers = [self._aligned(model, *pair) for pair in zip(lines, answers, strict=True)]
        return answers

    def _aligned(self, model: nn.Module, line: str, answer: Answer) -> Answer:
        """The answer and all others, each with its alignment: pairs of words, separated by white space."""
        if not line.strip():
            return answer
        others = tuple(self._aligned(model, line, other) for other in answer.others)
        source, target = self.source.encode(line), self.target.encode(answer.text)
        weights = self.cross_attention(model, source, target)[-1]
        words = self.source.words(line), self.target.words(answer.text)
        return replace(answer, others=others, alignment=word_alignment(weights, *words))

    def cross_attention(self, model: nn.Module, source: Tensor, target: Tensor) -> list[Tensor]:
        """(S), (T) -> (H, T, S) per layer; row t has the weights with which token t was generated

        Both sentences are given with their end mark.
        """
        found = capture_translation(model.eval(), source, target, self.target)
        return [one.weights[0] for one in found.attentions if one.role == "cross"]

    def record(self, model: nn.Module, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        """The translation and all attention maps of each input; for an invalid input, its error.

        All sources are translated together, with the default search.
        """
        model.eval()
        rows = [self._readable(model, given, number) for number, given in enumerate(inputs, 1)]
        valid = [row for row in rows if isinstance(row, Tensor)]
        search = Search(beam=BEAMS, n_best=BEAMS)
        found = iter(self.decode(model, Ragged.from_rows(valid), search) if valid else [])
        return [
            row if isinstance(row, WrongInput) else self._record(model, given, row, next(found))
            for given, row in zip(inputs, rows, strict=True)
        ]

    def _readable(self, model: nn.Module, given: Input, number: int) -> Tensor | WrongInput:
        try:
            if isinstance(given, bytes):
                raise WrongInput("this model reads text, not images")
            row = given if isinstance(given, Tensor) else self.encode(model, str(given), number)
            check_record_size(len(row), f"{len(row):,} tokens")
        except WrongInput as refusal:
            return refusal
        return row

    def _record(self, model: nn.Module, given: Input, row: Tensor, beams: list[Hypothesis]) -> Record:
        if isinstance(given, str | Path):
            text, tokens = as_text(given), [as_text(token) for token in self.source.tokens(str(given))]
        else:
            text, tokens = self.source.decode(row), self.source.item_names(row)
        return record_translation(model, text, tokens, row, beams, self.target)

    def encode(self, model: nn.Module, line: str, number: int = 1) -> Tensor:
        """-> (S), refused if it is longer than the model can read"""
        if not line.strip():
            raise WrongInput(f"input {number}: the line is empty")
        row, longest = self.source.encode(line), cast(Transformer | Recurrent, model).longest
        check_length(len(row), self._state.longest, number)
        if longest is not None and len(row) > longest:
            raise WrongInput(f"input {number}: {len(row):,} tokens; this model has {longest:,} positions")
        return row

    def inputs_in(self, path: Path) -> list[str]:
        """The lines of a file of source sentences; a file of sentence pairs is refused."""
        lines = super().inputs_in(path)
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                hint = "give only the source sentences, for example with `cut -f1`"
                raise WrongInput(f"{path}:{number}: the line contains a tab, like a sentence pair; {hint}")
        return lines

    def unlike_training(self, inputs: Sequence[Input]) -> list[str]:
        """Warnings about sentences that are longer than those of training, and about unknown tokens."""
        lines = [str(line) for line in inputs if str(line).strip()]
        rows = [self.source.encode(line).tolist() for line in lines]
        tokens = ((self.source.tokens(line), row) for line, row in zip(lines, rows, strict=True))
        unknown = unlike_tokens([list(zip(*both, strict=True)) for both in tokens])
        return unlike_lengths(map(len, rows), (1, self._state.longest)) + unknown

    def decode(self, model: nn.Module, rows: Ragged, search: Search) -> list[list[Hypothesis]]:
        """The best translations of each row, in order; sentences of similar length share a batch."""
        if model.training:  # `eval` takes half a millisecond
            model.eval()
        device = next(model.parameters()).device
        own = cast(Transformer | Recurrent, model)
        # Fast copies of the weights know nothing of changed attention weights.
        generator: Generator = own if is_edited(model) else own.generator()
        found: dict[int, list[Hypothesis]] = {}
        batches = even_batches(rows.lengths, TOGETHER)
        for index in track(batches, len(batches)):
            tokens, lengths = rows.pad(index)
            # At most twice as many tokens as the source, and 20 more, so that generation ends.
            most = [
                min(2 * length + 20, generator.longest or 2 * length + 20)
                for length in rows.lengths[index].tolist()
            ]
            sources = Sources(
                tokens.to(device),
                None if lengths is None else lengths.to(device),
                most,
                self.target.begin,
                self.target.end,
                self.target.banned,
            )
            found |= zip(index.tolist(), decode(generator, sources, search), strict=True)
        return [found[i] for i in range(len(rows))]

    def _answer(self, hypotheses: list[Hypothesis]) -> Answer:
        rows = [torch.tensor(hypothesis.tokens, dtype=torch.long) for hypothesis in hypotheses]
        best, *others = (
            Answer(self.target.decode(row), _probability(hypothesis))
            for row, hypothesis in zip(rows, hypotheses, strict=True)
        )
        return replace(best, others=tuple(others)) if others else best


def _probability(hypothesis: Hypothesis) -> float | None:
    known = not math.isnan(hypothesis.log_probability)
    return math.exp(hypothesis.log_probability) if known else None
