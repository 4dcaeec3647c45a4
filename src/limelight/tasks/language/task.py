"""Language modelling: the next token of running text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from limelight.config import read_json
from limelight.data.batching import Batch
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.running_text import TextData
from limelight.errors import WrongInput
from limelight.models.decoder_only import DecoderOnlyConfig, LanguageModel
from limelight.tasks.language.generation import (
    LanguageOptions,
    log_probabilities,
    text_pieces,
)
from limelight.tasks.language.next_token import (
    add_tokens,
    candidates,
    continuation,
    following,
    whole_characters,
)
from limelight.tasks.metrics import DESCRIPTIONS
from limelight.tasks.running_text import (
    RunningTextConfig,
    RunningTextState,
    RunningTextTask,
    token_losses,
)
from limelight.tasks.task import (
    LONGEST_RECORD,
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
from limelight.view.collect import Attention
from limelight.view.lens import logit_lens
from limelight.view.prompt import Prompt
from limelight.view.record import Record, attention_maps

EXAMPLES = 8
EXAMPLE_LENGTH = 40  # tokens of an example for a page
FIGURE_LENGTH = 20  # tokens of the example in a figure, so that labels can be read
CONTINUATION = 30  # generated tokens in a record
METRIC_DESCRIPTIONS = DESCRIPTIONS | {
    "loss": "mean of -ln p(next token), in nats per token",
    "perplexity": "exp(loss): as uncertain as a choice between so many equally likely tokens",
    "bits_per_character": "mean of -log2 p per character, comparable between vocabularies without "
    "unknown tokens",
}


class LanguageState(RunningTextState):
    """The properties of the data that generation needs."""

    start: int = Field(ge=0, description="the token before a text that has no beginning")


class Language(RunningTextTask):
    """Cross-entropy of each next token, given those before it."""

    command: ClassVar[str] = "generate"
    reads_prompts: ClassVar[bool] = True
    options = LanguageOptions
    metric_descriptions = METRIC_DESCRIPTIONS
    _state: LanguageState

    @classmethod
    def of(cls, data: TextData) -> "Language":
        """The task that a data set defines. A text without a beginning begins a document, or else a line."""
        line_end = data.reader.encode_text("\n")  # nothing in a vocabulary of words
        has_documents = bool(data.tokens.entry.splits["train"].ends)
        start = data.reader.end if has_documents or not len(line_end) else int(line_end[0])
        return cls(LanguageState(reader=data.reader, context=data.context, start=start))

    @property
    def goal(self) -> Goal:
        """The metric that selects the best checkpoint."""
        return Goal("loss", 0.0)

    def arguments(self, batch: Batch) -> tuple[Tensor | None, ...]:
        """The arguments with which the model is called."""
        return (batch.inputs,)

    def predictions(self, batch: Batch) -> int:
        """One per token, except those that belong to another window."""
        return int((batch.targets >= 0).sum())

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Scores:
        """Cross-entropy, computed from the inputs of the output layer."""
        x_ND, target_N = model(batch.inputs, logits=False).flatten(0, 1), batch.targets.flatten()
        if bool((target_N < 0).any()):
            x_ND, target_N = x_ND[target_N >= 0], target_N[target_N >= 0]
        loss, _ = token_losses(x_ND, cast(nn.Linear, model.output), target_N, smoothing)
        return Scores(loss, {"loss": loss.detach()})

    def derived(self, means: Mapping[str, float], dataset: TextData, split: str) -> dict[str, float]:
        """Perplexity and bits per character."""
        bits = means["loss"] / math.log(2)
        return {
            "perplexity": math.exp(min(means["loss"], 700.0)),
            "bits_per_character": bits / dataset.characters_per_token(split),
        }

    def generate(self, model: nn.Module, prompt: str, options: Mapping[str, Any]) -> Iterator[str]:
        """A continuation of the prompt, in pieces, each as soon as it is known; options as in `predict`."""
        read = cast(LanguageOptions, self.read_options(options))
        found = self._following(model.eval(), self._begin(prompt), read)
        return text_pieces((token for token, _ in found), self.reader, read.stop)

    def _following(
        self, model: nn.Module, start: Sequence[int], options: LanguageOptions
    ) -> Iterator[tuple[int, float]]:
        return following(cast(LanguageModel, model), start, self.context, options, self.reader)

    def _begin(self, prompt: str) -> list[int]:
        """The tokens of a prompt; of an empty one, the token before a text."""
        return self._encode(prompt) if prompt else [self._state.start]

    def _encode(self, text: str) -> list[int]:
        """The tokens of a text of any length, after those that a pre-trained tokenizer adds."""
        if isinstance(self.reader, PretrainedTokenizer):
            return [*self.reader.begin, *self.reader.encode_text(text).tolist()]
        return self.reader.encode(text).tolist()

    def predict(
        self,
        model: nn.Module,
        inputs: Sequence[Input],
        options: LanguageOptions | None = None,
        *,
        first: int = 1,
    ) -> list[Answer]:
        """The continuation of each input, or its log-probability."""
        options = options or LanguageOptions()
        answer = self._score if options.score else self._continue
        return [answer(model, _as_line(one), options) for one in inputs]

    def _continue(self, model: nn.Module, prompt: str, options: LanguageOptions) -> Answer:
        found = list(self._following(model.eval(), self._begin(prompt), options))
        text = "".join(text_pieces((token for token, _ in found), self.reader, options.stop))
        return Answer(text, math.exp(sum(likely for _, likely in found)))

    def _score(self, model: nn.Module, text: str, options: LanguageOptions) -> Answer:
        """The log-probability of a text, which may be as long as the user likes."""
        ids = self._encode(text) if text else []
        begins = isinstance(self.reader, PretrainedTokenizer) and self.reader.begin and ids
        row = torch.tensor(ids if begins else [self._state.start, *ids])
        total = float(log_probabilities(cast(LanguageModel, model.eval()), row, self.context).sum())
        return Answer(f"{total:.4f}", math.exp(total), number=total)

    def unlike_training(self, inputs: Sequence[Input]) -> list[str]:
        """Warnings about characters that do not occur in training."""
        lines = [str(line) for line in inputs if str(line)]
        rows = [(self.reader.tokens(line), self.reader.encode(line).tolist()) for line in lines]
        return unlike_tokens([list(zip(*both, strict=True)) for both in rows], self.reader.unknown)

    def sample(self, dataset: TextData, split: str) -> str:
        """The first three words of a line, without punctuation where possible."""
        lines = [line.split() for line in dataset.text(split, 0).split("\n")[1:]]
        several = [words[:3] for words in lines if len(words) > 3] or [["The"]]
        plain = [words for words in several if all(word.isalpha() for word in words)]
        return " ".join((plain or several)[0])

    def examples(self, dataset: TextData, split: str) -> Iterator[Example]:
        """The beginnings of windows at even distances."""
        size = len(dataset.examples(split))
        for window in range(0, size, max(1, size // EXAMPLES)):
            yield self._example(dataset, split, window, EXAMPLE_LENGTH)

    def figure_example(self, model: nn.Module, dataset: TextData, split: str) -> Example:
        """The beginning of the first window."""
        return self._example(dataset, split, 0, FIGURE_LENGTH)

    def _example(self, dataset: TextData, split: str, window: int, length: int) -> Example:
        """The first tokens of a window, from the beginning of a line on if enough of them are left."""
        text = dataset.text(split, window).strip("\ufffd")
        rows = [self.reader.encode(one or " ") for one in (text[text.find("\n") + 1 :].lstrip(), text)]
        row = next((row for row in rows if len(row) >= length), rows[-1])[:length]
        return Example(self.reader.decode(row).rstrip("\ufffd"), ())

    def record(self, model: nn.Module, inputs: Sequence[Input | Prompt]) -> list[Record | WrongInput]:
        """The most likely continuation and all attention maps of each input; or its error."""
        model.eval()
        return record_each(inputs, lambda given, number: self._record(model, _as_prompt(given), number))

    def _record(self, model: nn.Module, prompt: Prompt, number: int) -> Record:
        start, options = self._begin(prompt.given), LanguageOptions(length=CONTINUATION)
        added = add_tokens(cast(LanguageModel, model), start, prompt, self.reader, self.context)
        tokens = [*start, *added]
        if len(tokens) > self.context:
            shown = f"{len(tokens):,} tokens; this model reads {self.context:,}"
            raise WrongInput(f"input {number}: {shown}")
        check_record_size(len(tokens), f"{len(tokens):,} tokens")
        next_ones = [token for token, _ in self._following(model, tokens, options)]
        text = whole_characters(added, self.reader)
        row = torch.tensor([tokens], device=next(model.parameters()).device)
        found = capture(model, row)
        maps, weights = attention_maps(found.attentions, _place)
        logits_TV = found.output[0].float()
        return Record(
            given=as_text(prompt.given) + text,
            answer=whole_characters([*added, *next_ones], self.reader)[len(text) :],
            sides={"source": tuple(self.reader.item_names(row[0]))},
            maps=maps,
            weights=weights,
            steps=candidates(logits_TV, self.reader),
            stepped="source",
            lens=logit_lens(model, lambda: model(row)[0].float().softmax(-1), self.reader.name),
            continuation=continuation(
                logits_TV, added, min(self.context, LONGEST_RECORD) - len(tokens), self.reader.end
            ),
        )


def _as_prompt(given: Input | Prompt) -> Prompt:
    # Not validated: text from a terminal may contain incomplete characters.
    return given if isinstance(given, Prompt) else Prompt.model_construct(given=_as_line(given))


def _as_line(given: Input) -> str:
    if isinstance(given, bytes):
        raise WrongInput("this model reads text, not images")
    if isinstance(given, Tensor):
        raise WrongInput("this model reads text, not tensors")
    return str(given)


def _place(attention: Attention) -> tuple[str, str, str]:
    return "decoder", "source", "source"


class LanguageConfig(RunningTextConfig):
    """The next token of running text."""

    models = (DecoderOnlyConfig,)

    kind: Literal["language"] = Field("language", description="the kind of task")

    @model_validator(mode="after")
    def _only_windows(self) -> Self:
        if self.data.examples != "windows":
            raise ValueError(f"data.examples is {self.data.examples!r}; allowed for this task: windows")
        return self

    def task_of(self, data: TextData) -> Language:
        """The task that a data set defines."""
        return Language.of(data)

    def restore(self, state: str) -> Language:
        """Make the task from its state, for generation."""
        return Language(read_json(LanguageState, state, "data.json"))
