"""The attention record of a translation."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from limelight.data.text.translation_data import Language
from limelight.tasks.translate.search import Hypothesis
from limelight.view.capture import Capture, capture
from limelight.view.collect import Attention
from limelight.view.lens import logit_lens
from limelight.view.record import Candidate, Record, attention_maps, most_likely


@torch.no_grad()
def capture_translation(model: nn.Module, source: Tensor, target: Tensor, language: Language) -> Capture:
    """(S), (T) -> the logits (T, V) and the attention with which the model generates this target

    Both sentences are given with their end mark.
    """
    return capture(model, *_arguments(model, source, target, language))


def translation_logits(model: nn.Module, source: Tensor, target: Tensor, language: Language) -> Tensor:
    """(S), (T) -> (T, V), the logits with which the model generates this target"""
    return model(*_arguments(model, source, target, language))


def _arguments(model: nn.Module, source: Tensor, target: Tensor, language: Language) -> tuple[Tensor, Tensor]:
    generated = torch.cat((torch.tensor([language.begin]), target[:-1]))
    device = next(model.parameters()).device
    return source.unsqueeze(0).to(device), generated.unsqueeze(0).to(device)


def record_translation(
    model: nn.Module,
    given: str,
    tokens: Sequence[str],
    source: Tensor,
    beams: Sequence[Hypothesis],
    language: Language,
) -> Record:
    """The record of a source sentence (S): `given` is its text, `tokens` are the texts of its tokens.

    `beams` are its translations in `language`, the best first.
    """
    texts = [language.decode(torch.tensor(beam.tokens, dtype=torch.long)) for beam in beams]
    candidates = tuple(
        Candidate(text=text, probability=math.exp(beam.log_probability))
        for text, beam in zip(texts, beams, strict=True)
    )
    target = torch.tensor([*beams[0].tokens, language.end])
    generated = torch.tensor([language.begin, *beams[0].tokens])
    found = capture_translation(model, source, target, language)
    maps, weights = attention_maps(found.attentions, place_of(model))
    return Record(
        given=given,
        answer=texts[0],
        probability=candidates[0].probability,
        sides={
            "source": tuple(tokens),
            "target": tuple(language.item_names(target)),
            "written": tuple(language.item_names(generated)),
        },
        maps=maps,
        weights=weights,
        candidates=candidates,
        steps=tuple(most_likely(one, language.name) for one in found.output.float().softmax(-1).cpu()),
        stepped="target",
        lens=logit_lens(
            model,
            lambda: translation_logits(model, source, target, language).float().softmax(-1),
            language.name,
        ),
    )


def place_of(model: nn.Module) -> Callable[[Attention], tuple[str, str, str]]:
    """The part and the sides of each attention of an encoder-decoder."""
    in_decoder = {f"decoder.{name}" for name, _ in model.get_submodule("decoder").named_modules()}

    def place(attention: Attention) -> tuple[str, str, str]:
        if attention.role == "cross":
            return "cross-attention", "target", "source"
        if attention.name in in_decoder:
            return "decoder", "target", "written"
        return "encoder", "source", "source"

    return place
