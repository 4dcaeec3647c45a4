"""Text generation with CTranslate2."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from torch import Tensor

from limelight.bridge.ctranslate2.quantize import quantize
from limelight.bridge.ctranslate2.specs import language_spec
from limelight.bridge.ctranslate2.vocabularies import END_NAME, text_names, write_subwords
from limelight.models.decoder_only import LanguageGenerator, LanguageModel
from limelight.nn import FastCache
from limelight.tasks.language.generation import LanguageOptions, OwnGeneration
from limelight.tasks.language.task import Language


def write_language(task: Language, model: LanguageModel, folder: Path, type: str) -> None:
    """Write the model and its vocabulary; `type` is that of the weights: float32 or int8."""
    spec, names = language_spec(model, task.context), text_names(task.reader)
    spec.register_vocabulary(names)
    spec.config.bos_token = spec.config.eos_token = END_NAME
    if task.reader.unknown >= 0:
        spec.config.unk_token = names[task.reader.unknown]
    spec.validate()
    spec.optimize()
    if type == "int8":
        quantize(spec)
    spec.save(str(folder))
    write_subwords(task.reader, folder / "tokens.model")


class LanguageEngine(LanguageModel):
    """The same layers as another model, under the same names; CTranslate2 generates its texts."""

    def __init__(self, model: LanguageModel, task: Language, folder: Path) -> None:
        torch.nn.Module.__init__(self)
        vars(self).update(vars(model))
        self._generation = TextGeneration(model, task, folder)

    def generator(self) -> Any:
        """What generates texts."""
        return self._generation

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)

        The log-probabilities of the token after each token, by CTranslate2.
        """
        return self._generation.log_probabilities(tokens)


class TextGeneration(OwnGeneration):
    """Texts by CTranslate2; `start`, `step` and `draft` compute with torch what it does not generate."""

    def __init__(self, model: LanguageModel, task: Language, folder: Path) -> None:
        self._model, self.longest = model, model.longest
        self._names, self._folder = text_names(task.reader), folder
        self._end, self._has_unknown = task.reader.end, task.reader.unknown >= 0
        self._greedy = self._load()

    def _load(self) -> ctranslate2.Generator:
        threads = torch.get_num_threads()
        return ctranslate2.Generator(str(self._folder), device="cpu", inter_threads=1, intra_threads=threads)

    @cached_property
    def _torch(self) -> LanguageGenerator:
        return LanguageGenerator(self._model)

    def start(self, tokens: Tensor, *, capacity: int) -> tuple[Tensor, FastCache]:
        """(B, T) -> (B, T, V), and a cache for `capacity` positions, which contains the first T"""
        return self._torch.start(tokens, capacity=capacity)

    def step(self, tokens: Tensor, cache: FastCache) -> Tensor:
        """(N) -> (N, V)"""
        return self._torch.step(tokens, cache)

    def draft(self) -> LanguageGenerator | None:
        """A copy for approximate steps."""
        return self._torch.draft()

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)"""
        found = self._greedy.forward_batch(tokens.tolist(), return_log_probs=True)
        return torch.from_numpy(np.array(found))

    def generate(
        self, start: Sequence[int], context: int, options: LanguageOptions
    ) -> Iterator[tuple[int, float]] | None:
        """The result of `next_tokens`; None for options that mean something else in CTranslate2.

        It selects the tokens for `top_p` before it applies temperature and `top_k`, and its `repetition` does
        not include the prompt.
        """
        other_top_p = options.top_p < 1 and (options.temperature != 1 or options.top_k > 0)
        if other_top_p or options.repetition != 1:
            return None
        return self._generate(list(start), context, options)

    def _generate(
        self, tokens: list[int], context: int, options: LanguageOptions
    ) -> Iterator[tuple[int, float]]:
        """As in `next_tokens`: when the context is full, it goes on with the second half of the tokens."""
        generator, read, left = self._of(options), tokens[-context:], options.length
        while left:
            for step in generator.generate_tokens(
                [self._names[token] for token in read],
                max_length=min(left, context + 1 - len(read)),
                sampling_topk=options.top_k if options.temperature else 1,
                sampling_topp=options.top_p,
                sampling_temperature=options.temperature or 1,
                return_log_prob=True,
                disable_unk=self._has_unknown,
            ):
                left -= 1
                tokens.append(step.token_id)
                yield step.token_id, step.log_prob
                if step.token_id == self._end:
                    return
            read = tokens[-max(1, context // 2) :]

    def _of(self, options: LanguageOptions) -> ctranslate2.Generator:
        """The generator; for samples a new one, because each begins a sequence of random numbers."""
        if not options.temperature:
            return self._greedy
        ctranslate2.set_random_seed(options.seed % 2**32)
        return self._load()
