"""One label per token of a sentence: parts of speech, names and other entities."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limelight.data.batching import Batch, even_batches
from limelight.data.dataset import Dataset, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.synthetic.phrasebook.parts_of_speech import PartsOfSpeech
from limelight.data.text.affixes import Affixes
from limelight.data.text.conll import ColumnFile, has_columns
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.tagged_text import NO_LABEL, TaggedFiles, encode_tokens
from limelight.data.text.text_files import read_lines
from limelight.data.text.text_vocabulary import TextWords
from limelight.data.text.vocabulary import Characters, Subwords, Words
from limelight.models.labeller import LabellerConfig
from limelight.tasks.metrics import DESCRIPTIONS, Baseline, Judgement, judge_classes
from limelight.tasks.sequence.shared import PREDICT_BATCH, SequenceTask, SequenceTaskConfig
from limelight.tasks.tag.entities import are_spans, judge_entities
from limelight.tasks.task import (
    Answer,
    Comparison,
    Example,
    Input,
    Scores,
    Task,
    as_text,
    check_length,
    unsuitable_reader,
)
from limelight.view.record import Record

METRIC_DESCRIPTIONS = DESCRIPTIONS | {
    "accuracy": "share of tokens with the correct label",
    "f1": "harmonic mean of precision and recall of entities; right: type, first and last token (conlleval)",
    "precision": "share of the predicted entities that are right",
    "recall": "share of the entities that were found",
    "unseen_accuracy": "accuracy of the tokens that do not occur in training",
}


class Tag(SequenceTask):
    """Cross-entropy over the labels of each token.

    The best checkpoint is selected by the accuracy of tokens: F1 is a ratio of sums over the whole split, and
    not a mean over predictions like the metrics of `loss`.
    """

    metric_descriptions = METRIC_DESCRIPTIONS

    def predictions(self, batch: Batch) -> int:
        """One per token."""
        return int((batch.targets != NO_LABEL).sum())

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """Cross-entropy and accuracy."""
        logits_NL, targets_N = self._labelled(model, batch)
        loss = F.cross_entropy(logits_NL, targets_N, reduction="sum", label_smoothing=smoothing)
        right = (logits_NL.detach().argmax(-1) == targets_N).sum()
        return Scores(loss, {"loss": loss.detach(), "accuracy": right})

    def _labelled(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """-> (N, L), (N)

        Logits and labels of all tokens; padding has no label.
        """
        labelled_BT = batch.targets != NO_LABEL
        return model(*self.arguments(batch))[labelled_BT], batch.targets[labelled_BT] - 1

    @torch.no_grad()
    def evaluate_answers(
        self, model: nn.Module, dataset: SequenceData, split: str, options: Any = None
    ) -> Judgement:
        """For entities precision, recall and F1; for other labels those of each label."""
        device = next(model.eval().parameters()).device
        found = list[tuple[Tensor, Tensor, Tensor]]()
        for index in even_batches(dataset.lengths(split), PREDICT_BATCH):
            batch = dataset.batch(split, index)
            logits_NL, targets_N = self._labelled(model, batch.to(device))
            counts_B = (batch.targets != NO_LABEL).sum(1)
            found.append((targets_N.cpu(), logits_NL.argmax(-1).cpu(), counts_B))
        truth_N, answer_N, counts_M = map(torch.cat, zip(*found, strict=True))
        if are_spans(self.answers.names):
            both = (Ragged.from_lengths(labels_N, counts_M) for labels_N in (truth_N, answer_N))
            judged = judge_entities(*([self._names(rows[i]) for i in range(len(rows))] for rows in both))
        else:
            judged = judge_classes(truth_N, answer_N, self.answers.names)
        judged.values.update(self._judge_unseen(dataset, split, truth_N == answer_N))
        return judged

    def _judge_unseen(self, dataset: SequenceData, split: str, right_N: Tensor) -> dict[str, float]:
        """The accuracy of unknown tokens, given which tokens are right; nothing if there are none."""
        if self.reader.kind != "affixes":
            return {}
        examples = dataset.examples(split)
        order = torch.cat(even_batches(dataset.lengths(split), PREDICT_BATCH)).tolist()
        unseen_N = torch.cat([examples.inputs[i][:, 0] == 0 for i in order])
        return {"unseen_accuracy": float(right_N[unseen_N].float().mean())} if unseen_N.any() else {}

    def baseline(self, dataset: SequenceData, split: str) -> Baseline | None:
        """The most frequent label of each token in training; of a new one, that of all new ones."""
        if not {"train", split} <= dataset.texts.keys():
            return None
        counts, first = defaultdict[str, Counter[str]](Counter), Counter[str]()
        for tokens, labels in self._tagged(dataset, "train"):
            for token, label in zip(tokens, labels, strict=True):
                first[label] += token not in counts
                counts[token][label] += 1
        usual = {token: found.most_common(1)[0][0] for token, found in counts.items()}
        new = first.most_common(1)[0][0]
        right = [
            usual.get(token, new) == label
            for tokens, labels in self._tagged(dataset, split)
            for token, label in zip(tokens, labels, strict=True)
        ]
        return Baseline("the most frequent label of each token", "accuracy", sum(right) / len(right))

    def _tagged(self, dataset: SequenceData, split: str) -> Iterator[tuple[list[str], list[str]]]:
        """The tokens of each sentence with their labels."""
        targets = cast(Ragged, dataset.examples(split).targets)
        for i, text in enumerate(dataset.texts[split]):
            yield text.split(), self._names(targets[i][targets[i] != NO_LABEL] - 1)

    def _names(self, labels: Tensor) -> list[str]:
        return [self.answers.names[i] for i in labels.tolist()]

    def _example(self, dataset: SequenceData, split: str, number: int, compared_as: Comparison) -> Example:
        text = dataset.text(split, number)
        targets_T = cast(Ragged, dataset.examples(split).targets)[number]
        pairs = zip(text.split(), self._names(targets_T[targets_T != NO_LABEL] - 1), strict=True)
        return Example(text, (join_labels(pairs),), compared_as)

    def inputs_in(self, path: Path) -> list[str]:
        """The sentences in a file: lines of tokens, or files in columns, with or without labels."""
        if not has_columns(path):
            return read_lines(path)[1]
        return [one.text for one in ColumnFile.read(path).tokens(int(self._state.column or 0))]

    def columns_in(self, path: Path) -> tuple[list[str], list[list[str]]]:
        """One column of sentences."""
        return ["input"], [[line] for line in self.inputs_in(path)]

    def encode(self, given: Input, number: int = 1) -> Tensor:
        """-> (T) | (T, ids)"""
        if isinstance(given, bytes | Tensor) or not str(given).strip():
            return super().encode(given, number)
        items = encode_tokens(self.reader, str(given).split())[0]
        check_length(len(items), self._state.longest, number)
        return items

    def tokens(self, given: Input, items: Tensor) -> list[str]:
        """The text of each item of an input."""
        if not isinstance(given, str | Path):
            return super().tokens(given, items)
        if isinstance(self.reader, PretrainedTokenizer):
            return [as_text(name) for name in self.reader.item_names(items)]
        return [item for token in str(given).split() for item in super(Tag, self).tokens(token, items)]

    def answer_to(self, given: Input, outputs: Tensor, length: int) -> Answer:
        """(T, L) -> each token with its label"""
        tokens, starts = self._starts(given, length)
        best_N, chosen_N = self.choices(outputs, length)[starts].max(-1)
        pairs = tuple(zip(tokens, self._names(chosen_N), strict=True))
        return Answer(join_labels(pairs), float(best_N.prod()), labels=pairs)

    def _starts(self, given: Input, length: int) -> tuple[list[str], list[int]]:
        """The tokens of an input, and the position of the first item of each."""
        if not isinstance(given, str | Path):
            return self.reader.item_names(cast(Tensor, given)), list(range(length))
        tokens = str(given).split()
        return tokens, encode_tokens(self.reader, tokens)[1].tolist()

    def _record(self, model: nn.Module, given: Input, number: int) -> Record:
        """A record in which only the first item of each token has candidates."""
        found = super()._record(model, given, number)
        starts = set(self._starts(given, len(found.steps))[1])
        steps = tuple(step if i in starts else () for i, step in enumerate(found.steps))
        return found.model_copy(update={"steps": steps})


def join_labels(pairs: Iterable[tuple[str, str]]) -> str:
    """Tokens with their labels, as in "She/PRON sleeps/VERB ./PUNCT"."""
    return " ".join(f"{token}/{label}" for token, label in pairs)


class TagConfig(SequenceTaskConfig):
    """One label per token of a sentence."""

    task = Tag
    models = (LabellerConfig,)
    path_data = "columns"

    kind: Literal["tag"] = Field("tag", description="the kind of task")
    data: Annotated[PartsOfSpeech | TaggedFiles, Field(discriminator="kind", description="the data set")]

    def load_from(self, seed: int, start: Task[Any]) -> tuple[SequenceTask, SequenceData]:
        """Tokens are read with the vocabulary of the task to start from."""
        allowed = Words | Characters | Subwords | Affixes | TextWords | PretrainedTokenizer
        if not isinstance(start.reader, allowed):
            raise unsuitable_reader(start, "words, characters, subwords or affixes")
        data = self.data.load(seed, start.reader)
        return self.task.of(data), data

    def load_other(self, task: Tag, path: Path) -> Dataset[Any]:
        """Labelled sentences of other files."""
        files = self.data if isinstance(self.data, TaggedFiles) else TaggedFiles()
        return files.load_other(path, task.reader, task.answers)
