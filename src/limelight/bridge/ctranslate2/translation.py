"""Translation with CTranslate2."""

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from torch import Tensor

from limelight.bridge.ctranslate2.quantize import quantize
from limelight.bridge.ctranslate2.specs import ROWS, translation_spec
from limelight.bridge.ctranslate2.vocabularies import (
    BEGIN_NAME,
    END_NAME,
    language_names,
    write_subwords,
)
from limelight.models.transformer import Transformer, TransformerGenerator
from limelight.nn import FastCache
from limelight.tasks.translate.search import Hypothesis, OwnSearch, Search, Sources
from limelight.tasks.translate.task import Translate

# CTranslate2 stops earlier without a length penalty, when the best beam ends. The order stays the same.
ALMOST_NONE = 1e-6


def write_translation(task: Translate, model: Transformer, folder: Path, type: str) -> None:
    """Write the model and its vocabularies; `type` is that of the weights: float32 or int8."""
    spec = translation_spec(model)
    source, target = language_names(task.source), language_names(task.target)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.bos_token = spec.config.decoder_start_token = BEGIN_NAME
    spec.config.eos_token, spec.config.unk_token = END_NAME, target[task.target.unknown]
    spec.validate()
    spec.optimize()
    if type == "int8":
        quantize(spec)
    spec.save(str(folder))
    write_subwords(task.source.vocabulary, folder / "source.model")
    write_subwords(task.target.vocabulary, folder / "target.model")


class TranslationEngine(Transformer):
    """The same layers as another Transformer, under the same names; CTranslate2 finds its translations."""

    def __init__(self, model: Transformer, task: Translate, folder: Path) -> None:
        torch.nn.Module.__init__(self)
        vars(self).update(vars(model))
        self._search = TranslationSearch(model, task, folder)

    def generator(self) -> Any:
        """What searches for translations."""
        return self._search


class TranslationSearch(OwnSearch):
    """Translations by CTranslate2; `start` and `step` compute with torch what it does not search for."""

    def __init__(self, model: Transformer, task: Translate, folder: Path) -> None:
        self._model, self.longest = model, model.longest
        self._source, self._target = language_names(task.source), language_names(task.target)
        self._banned = task.target.banned
        self._ids = {name: token for token, name in enumerate(self._target)}
        self._translator = ctranslate2.Translator(
            str(folder), device="cpu", inter_threads=1, intra_threads=torch.get_num_threads()
        )

    @cached_property
    def _torch(self) -> TransformerGenerator:
        return TransformerGenerator(self._model)

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> FastCache:
        """(B, S), (B) -> a cache for `capacity` target positions"""
        return self._torch.start(source, lengths, capacity=capacity)

    def step(self, tokens: Tensor, state: FastCache) -> Tensor:
        """(B) -> (B, V)"""
        return self._torch.step(tokens, state)

    def search(self, sources: Sources, search: Search) -> list[list[Hypothesis]] | None:
        """The result of `decode`; None for samples, whose random numbers are those of torch, and for
        sentences that are longer than the exported table of positions.
        """
        longest = max(sources.tokens.shape[1], *sources.limits)
        if search.temperature or longest > ROWS or 2 * search.beam > len(self._target):
            return None
        rows = sources.tokens.tolist()
        if sources.lengths is not None:
            rows = [row[:length] for row, length in zip(rows, sources.lengths.tolist(), strict=True)]
        found = self._translate(rows, sources.limits, search)
        return [hypotheses[: search.n_best] for hypotheses in found]

    def _translate(
        self, rows: Sequence[list[int]], limits: Sequence[int], search: Search
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each row. A batch has one maximum length: rows of which a hypothesis got longer
        than its own maximum are translated again."""
        most, penalty = max(limits), search.length_penalty or ALMOST_NONE
        results = self._translator.translate_batch(
            [[self._source[token] for token in row] for row in rows],
            beam_size=search.beam,
            num_hypotheses=search.beam,
            length_penalty=penalty if search.beam > 1 else 0,  # scores are divided by length^penalty
            max_input_length=0,
            suppress_sequences=[] if self._banned is None else [[self._target[self._banned]]],
            min_decoding_length=0,
            max_decoding_length=most - 1,
            return_scores=search.probability or search.beam > 1,
        )
        found = []
        for row, limit, result in zip(rows, limits, results, strict=True):
            several = [[self._ids[name] for name in names] for names in result.hypotheses]
            if limit < most and any(len(tokens) >= limit - 1 for tokens in several):
                found += self._translate([row], [limit], search)
            else:
                found.append(
                    _ranked(several, result.scores or [math.nan], limit, penalty if search.beam > 1 else 0.0)
                )
        return found


def _ranked(
    several: Sequence[list[int]], scores: Sequence[float], limit: int, penalty: float
) -> list[Hypothesis]:
    """Hypotheses, the best first, from scores: log-probability / length^penalty. The length includes the end
    mark, which those that were truncated at their maximum length do not have; they come last."""
    found = []
    for tokens, score in zip(several, scores, strict=True):
        truncated = len(tokens) >= limit - 1
        total = score * (len(tokens) + (not truncated)) ** penalty
        found.append((truncated, -score, Hypothesis(tokens, total)))
    return [hypothesis for _, _, hypothesis in sorted(found, key=lambda one: one[:2])]
