"""The interface of a task: everything that is specific to one kind of problem."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor, nn

from limelight.config import Config, read
from limelight.data.batching import Batch
from limelight.data.dataset import Dataset, Reader
from limelight.data.text.text_files import read_text
from limelight.data.text.vocabulary import mark_unknown
from limelight.errors import WrongInput, unknown, wrong
from limelight.models.config import ModelConfig
from limelight.models.sizes import Sizes
from limelight.tasks.metrics import DESCRIPTIONS, Baseline, Judgement
from limelight.view.record import Record

Input = str | Path | bytes | Tensor  # a line of text; an image as its path, its bytes or pixels; a sequence
MOST_ITEMS = 2_000  # per input, unless training had longer ones: the cost of attention grows with the square
Comparison = Literal["text", "whole numbers", "numbers"]  # how an answer is compared with the correct one
MOST_UNKNOWN = 5  # unknown tokens that a warning names
SOME_SYMBOLS = 12  # of a vocabulary in a message
LONGEST_RECORD = 512  # tokens: more cannot be distinguished on a screen


@dataclass(frozen=True)
class Goal:
    """The metric that selects the best checkpoint, and its best possible value."""

    metric: str
    perfect: float

    def rank(self, value: float) -> float:
        """A number that is higher for a better value of the metric."""
        return value if self.perfect > 0 else -value


@dataclass(frozen=True)
class Scores:
    """The loss of a batch and its metrics, each summed over the predictions of the batch."""

    loss: Tensor
    sums: dict[str, Tensor]


@dataclass(frozen=True)
class Answer:
    """The prediction for one input, and its probability (None for a number)."""

    text: str
    probability: float | None = None
    number: float | None = None  # the prediction of a number
    vector: tuple[float, ...] = ()  # the vector of a text
    probabilities: dict[str, float] = field(default_factory=dict)  # of all classes
    others: tuple["Answer", ...] = ()  # the next best answers, if more than one was requested
    labels: tuple[tuple[str, str], ...] = ()  # each token of the input with its label
    alignment: tuple[tuple[int, int], ...] = ()  # (word of the input, word of the answer), counted from 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Example:
    """An input with all of its correct answers (none if unknown), and how an answer is compared with them.

    A prediction of a whole number is correct if it rounds to it. Other numbers are neither correct nor wrong,
    because there is no general tolerance.
    """

    given: str | Tensor
    truths: tuple[str, ...]
    compared_as: Comparison = "text"

    def matches(self, answer: str) -> str | None:
        """The correct answer that is equal to `answer`; subwords do not distinguish kinds of white space."""
        return answer if single_spaced(answer) in map(single_spaced, self.truths) else None

    def is_right(self, answer: str) -> bool | None:
        """Whether the answer is correct; None if that is not defined or not known."""
        if self.compared_as == "numbers" or not self.truths:
            return None
        if self.compared_as == "whole numbers":
            return abs(float(answer) - float(self.truths[0])) < 0.5
        return self.matches(answer) is not None


def single_spaced(text: str) -> str:
    """The text with one space wherever it has white space."""
    return " ".join(text.split())


class NoOptions(Config):
    """The options of a task whose predictions need none."""


D = TypeVar("D", bound=Dataset[Any])


class Task(ABC, Generic[D]):
    """Everything that is specific to one kind of problem: loss, metrics, predictions, records, figures.

    A task is made from a data set for training, or restored from its state for prediction. It does not hold
    the data set: methods that need examples take it as an argument.
    """

    unit: ClassVar[str] = "tokens"
    """Throughput unit."""

    input_kind: ClassVar[Literal["text", "image"]] = "text"
    """What users enter: a line of text, or an image file."""

    command: ClassVar[str] = "predict"
    """The command that a user tries next."""

    reads_prompts: ClassVar[bool] = False
    """Whether `record` also takes a `Prompt`, a text that grows token by token."""

    metric_descriptions: ClassVar[Mapping[str, str]] = DESCRIPTIONS
    """What the metrics mean, for reports."""

    reader: Reader | None = None
    """How a line becomes a sequence of items, for tasks that start from the weights of this one."""

    options: ClassVar[type[Config]] = NoOptions
    """Options of `predict` and `evaluate_answers`."""

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """The metric that selects the best checkpoint."""

    @property
    @abstractmethod
    def sizes(self) -> Sizes:
        """Data-dependent model dimensions."""

    @property
    @abstractmethod
    def state(self) -> str:
        """JSON: what prediction needs besides the weights."""

    @abstractmethod
    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""

    @abstractmethod
    def blank(self, count: int) -> Batch:
        """A batch of `count` examples without content, as long as the longest of training."""

    def predictions(self, batch: Batch) -> int:
        """The number of predictions that the sums of `loss` are over."""
        return len(batch)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """The training loss of a batch, and its metrics."""

    @abstractmethod
    def predict(
        self, model: nn.Module, inputs: Sequence[Input], options: Any = None, *, first: int = 1
    ) -> list[Answer]:
        """One answer per input, in order. Errors count the inputs from `first` on."""

    @abstractmethod
    def record(self, model: nn.Module, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        """The answer and all attention maps of each input, in order; for an invalid input, its error."""

    @abstractmethod
    def examples(self, dataset: D, split: str) -> Iterator[Example]:
        """The examples of a split that are short enough for a record."""

    def sample(self, dataset: D, split: str) -> str:
        """An input to try `predict` with; empty if inputs cannot be typed."""
        return ""

    def figure_example(self, model: nn.Module, dataset: D, split: str) -> Example:
        """The example whose attention is drawn after training."""
        return next(self.examples(dataset, split))

    def figures(self, model: nn.Module, dataset: D, split: str, name: str) -> dict[str, Figure]:
        """Figures of a trained model besides its curves, confusion matrix and attention, by file name."""
        return {}

    def baseline(self, dataset: D, split: str) -> Baseline | None:
        """The result of a simple model without a neural network, to compare with; None if there is none."""
        return None

    def derived(self, means: Mapping[str, float], dataset: D, split: str) -> dict[str, float]:
        """Metrics that follow from the means of a split, such as perplexity from the loss."""
        return {}

    def generate(self, model: nn.Module, prompt: str, options: Mapping[str, Any]) -> Iterator[str]:
        """A continuation of the prompt, in pieces, each as soon as it is known; options as in `predict`."""
        raise WrongInput("this model does not generate text; use `predict`")

    def evaluate_answers(self, model: nn.Module, dataset: D, split: str, options: Any = None) -> Judgement:
        """Metrics of whole answers, which are too slow to compute during training."""
        return Judgement({})

    def inputs_in(self, path: Path) -> list[str]:
        """The inputs in a file: by default, its lines."""
        return read_text(path).removesuffix("\n").split("\n")

    def columns_in(self, path: Path) -> tuple[list[str], list[list[str]]]:
        """The column names of a file of inputs, and one row per input, for a table with the answers."""
        return ["input"], [[line] for line in self.inputs_in(path)]

    def unlike_training(self, inputs: Sequence[Input]) -> list[str]:
        """Warnings about inputs that differ from those of training, such as longer ones or unknown words."""
        return []

    def read_options(self, given: Mapping[str, Any], *, evaluating: bool = False) -> Config:
        """Validated options of `predict`, or of `evaluate_answers`; those not given have their defaults."""
        self.check_options(given)
        return read(self.options, dict(given))

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Refuse options that this task does not have."""
        known = self.options.model_fields
        for key in given:
            if key not in known:
                if not known:
                    raise WrongInput(f"option {key!r} does not apply: this task has no options")
                raise unknown("option", key, known)


def as_text(given: str | Path) -> str:
    """The input as text that can be written to a page: bytes that are not UTF-8 are escaped."""
    return str(given).encode(errors="backslashreplace").decode()


def check_length(length: int, trained: int, number: int = 1) -> None:
    """Refuse an input that is too long; `trained` is the length of the longest input of training."""
    most = max(MOST_ITEMS, 2 * trained)
    if length > most:
        raise WrongInput(f"input {number}: {length:,} tokens; allowed: {most:,}")


def unlike_lengths(lengths: Iterable[int], trained: tuple[int, int]) -> list[str]:
    """A warning if some inputs are shorter or longer than those of training."""
    shortest, longest = trained
    unlike = [length for length in lengths if not shortest <= length <= longest]
    if not unlike:
        return []
    some = f"{len(unlike):,} input{'s have' if len(unlike) > 1 else ' has'}"
    known = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
    return [f"{some} a length unlike training ({known} tokens), such as {unlike[0]:,}; expect mistakes"]


def unlike_tokens(inputs: Sequence[Sequence[tuple[str, int]]], unknown_id: int = 0) -> list[str]:
    """A warning if some tokens of the inputs, given with their ids, are not in the vocabulary."""
    unknown = [token for one in inputs for token, number in one if number == unknown_id]
    if not unknown:
        return []
    total = sum(map(len, inputs))
    share = f"{len(unknown):,} of {total:,} tokens ({len(unknown) / total:.0%})"
    names = dict.fromkeys(token.removesuffix(mark_unknown("")) for token in unknown)
    some = ", ".join(map(repr, list(names)[:MOST_UNKNOWN]))
    mostly = sum(2 * sum(number == unknown_id for _, number in one) > len(one) for one in inputs)
    most = f"; {mostly:,} of {len(inputs):,} inputs have mostly such tokens" if mostly else ""
    return [f"{share} do not occur in training, such as {some}{most}"]


def check_record_size(tokens: int, described: str) -> None:
    """Refuse an input whose attention maps would be too large for a record."""
    if tokens > LONGEST_RECORD:
        raise WrongInput(f"{described} are too many for a record; allowed: {LONGEST_RECORD}")


One = TypeVar("One")


def record_each(inputs: Sequence[One], record: Callable[[One, int], Record]) -> list[Record | WrongInput]:
    """The record of each input and its number, or its error: an invalid input does not affect the others."""
    records = list[Record | WrongInput]()
    for number, given in enumerate(inputs, 1):
        try:
            with torch.no_grad():
                records.append(record(given, number))
        except WrongInput as refusal:
            records.append(refusal)
    return records


def describe_reader(reader: Reader | None) -> str:
    """A vocabulary in a few words: "words (2,113)"."""
    if reader is None:
        return "not one of single texts"
    if reader.kind == "symbols":
        return f"{len(reader.symbols):,} symbols: {' '.join(reader.symbols[:SOME_SYMBOLS])}"
    return f"{reader.kind} ({reader.features if reader.kind == 'vectors' else reader.size:,})"


def unsuitable_reader(start: Task[Any], allowed: str) -> WrongInput:
    """The exception for starting from a task whose inputs have another meaning."""
    return wrong("the vocabulary of the run to start from", describe_reader(start.reader), allowed)


class TaskConfig(Config, ABC):
    """The settings of a task. Subclasses define `kind`, the name of the task in recipes, and `data`."""

    models: ClassVar[tuple[type[ModelConfig], ...]]
    """The models that can be trained for this task."""

    path_data: ClassVar[str] = ""
    """The kind of data that is read from `--data`, for recipes whose default data has no path."""

    kind: str = Field(description="the kind of task")
    data: Config = Field(description="the data set")

    @abstractmethod
    def load(self, seed: int) -> tuple[Task[Any], Dataset[Any]]:
        """Load the data set, and make the task from it."""

    def load_from(self, seed: int, start: Task[Any]) -> tuple[Task[Any], Dataset[Any]]:
        """The same for a run that starts from the weights of another task: inputs must mean the same in both.

        A vocabulary is taken over from that task instead of being built; an unsuitable task is refused.
        """
        return self.load(seed)

    @abstractmethod
    def restore(self, state: str) -> Task[Any]:
        """Make the task from its state, for prediction."""

    def load_other(self, task: Any, path: Path) -> Dataset[Any]:
        """Other data than that of training, encoded for a restored task, to evaluate it; nothing is held out.

        The split of a single file is named "new".
        """
        raise WrongInput(f"the task {self.kind!r} cannot be evaluated on other data; omit --data")
