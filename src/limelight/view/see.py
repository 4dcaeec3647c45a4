"""The attention of any model, as an explorer: `limelight.see(model, inputs, tokens)`."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from limelight.errors import WrongInput, wrong
from limelight.view.capture import Capture, capture
from limelight.view.explorer import Explorer
from limelight.view.intervene import intervene, off
from limelight.view.record import (
    LARGEST_VARIANTS,
    MOST_VARIANTS,
    AttentionMap,
    Candidate,
    Picture,
    Record,
    Variant,
    most_likely,
    pack,
)
from limelight.view.sides import WORD_START, Place, image_tokens, places_of, token_texts

MOST_EXAMPLES = 8  # of a batch
LONGEST = 512  # tokens: more cannot be distinguished on a screen


def see(
    model: nn.Module,
    inputs: Any,
    tokens: Any = None,
    *,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    title: str = "",
) -> Explorer:
    """Show the attention of every layer and head of a model: in a notebook, or with `.save("page.html")`.

        see(model, x)
        see(hugging_face_model, tokenizer(text, return_tensors="pt"), tokens)
        see(encoder_decoder, (source, target), {"source": words, "target": other_words})
        see(vision_transformer, pixels)

    The inputs are a tensor, a tuple of arguments or a mapping of named ones, with the batch as first axis.
    `tokens` are the texts of the tokens of one example, a list of them per example, or a mapping of both
    sides; by default the ids or positions. For images (B, C, Y, X), the patches and the tokens before them
    are found from the number of tokens. The model is called once, in evaluation mode. `layers` and `heads`
    are those of `view.capture`.
    """
    args, named = _arguments(inputs)
    with _evaluating(model), torch.no_grad():
        found = capture(model, *args, layers=layers, heads=heads, **named)
    if found.missing:
        missing = ", ".join(name or type(model).__name__ for name in found.missing)
        warnings.warn(
            f"not shown, because its weights are never computed as a whole: {missing}", stacklevel=2
        )
    if not found.attentions:
        raise wrong("layers", repr(layers), "a number or a name of attention in this model")
    longest = max(max(one.weights.shape[2:]) for one in found.attentions)
    if longest > LONGEST:
        raise WrongInput(f"{longest:,} tokens are too many for a page; allowed: {LONGEST}")
    title = title or type(model).__name__
    records = list(_records(model, found, args, named, tokens, title))
    for number, head in _heads_to_switch_off(found, records):
        change = {found.attentions[number].name: off(head)}
        with _evaluating(model), intervene(model, change), torch.no_grad():
            without = capture(model, *args, layers=layers, heads=heads, **named)
        for i, changed in enumerate(_records(model, without, args, named, tokens, title)):
            variants = (*records[i].variants, Variant.of(number, head, changed))
            records[i] = records[i].model_copy(update={"variants": variants})
    return Explorer(tuple(records))


def _heads_to_switch_off(found: Capture, records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """The heads that a saved page can switch off: all heads of a model that is small enough."""
    names = [one.name for one in found.attentions]
    count = sum(one.weights.shape[1] for one in found.attentions)
    size = count * sum(len(record.weights) for record in records)
    if count * len(records) > MOST_VARIANTS or size > LARGEST_VARIANTS:
        return
    if any(name.endswith(")") for name in names):  # a module that is used several times has one name
        return
    for number, one in enumerate(found.attentions):
        for head in range(one.weights.shape[1]):
            yield number, head


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping) or hasattr(inputs, "keys"):  # also a BatchEncoding of Hugging Face
        return (), {str(key): inputs[key] for key in inputs.keys()}  # noqa: SIM118
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards each module is as before."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _records(
    model: nn.Module, found: Capture, args: tuple[Any, ...], named: Mapping[str, Any], tokens: Any, title: str
) -> Iterator[Record]:
    """One record per example."""
    tensors = [one for one in (*args, *named.values()) if isinstance(one, Tensor) and one.dim()]
    batch = len(tensors[0]) if tensors else 1
    ids = [one for one in args if _is_ids(one)] + [one for key, one in named.items() if _is_ids(one, key)]
    images = next((one for one in tensors if one.dim() == 4 and one.is_floating_point()), None)
    if any(len(one.weights) != batch for one in found.attentions):  # windows: not the whole image
        images = None
    places = places_of(found.attentions)
    for number in range(min(batch, MOST_EXAMPLES)):
        texts = token_texts(places, tokens, [one[number].tolist() for one in ids], number)
        picture = None if images is None else picture_of(images[number], len(texts.get("source", ())))
        if picture is not None:
            texts["source"] = image_tokens(picture)
        candidates = _candidates(model, found.output, batch, number)
        given = "" if picture or (tokens is None and not ids) else _text(texts["source"])
        yield Record(
            name=title,
            given=given or f"example {number + 1}",
            answer=candidates[0].text if candidates else "",
            probability=candidates[0].probability if candidates else None,
            sides=texts,
            maps=_maps(found, places),
            weights=pack([one.weights[number * (len(one.weights) // batch)] for one in found.attentions]),
            candidates=candidates,
            image=picture,
        )


def _is_ids(value: Any, name: str = "ids") -> bool:
    """Whether an argument is the ids of tokens: (B, T) of integers, and not a mask, types or positions."""
    if not isinstance(value, Tensor) or value.dim() != 2 or value.dtype not in (torch.int64, torch.int32):
        return False
    return name.endswith("ids") and not name.endswith(("type_ids", "position_ids"))


def _text(tokens: Sequence[str]) -> str:
    """The text of tokens, without the marks of subwords."""
    if any(token.startswith(WORD_START) for token in tokens):
        return "".join(tokens).replace(WORD_START, " ").strip()
    return " ".join(tokens).replace(" ##", "")


def _maps(found: Capture, places: Sequence[Place]) -> tuple[AttentionMap, ...]:
    counts, maps = dict[str, int](), []
    for one, place in zip(found.attentions, places, strict=True):
        layer = counts[place.part] = counts.get(place.part, -1) + 1
        heads = one.weights.shape[1]
        maps.append(
            AttentionMap(
                name=one.name,
                part=place.part,
                layer=layer,
                heads=heads,
                queries=place.queries,
                keys=place.keys,
            )
        )
    return tuple(maps)


def picture_of(pixels: Tensor, tokens: int) -> Picture | None:
    """(C, Y, X) -> the image in bytes, if so many tokens are the patches of a grid and a few before them

    The patches are squares, and there are as few tokens before them as possible.
    """
    height, width = pixels.shape[1:]
    sizes = [size for size in range(1, min(height, width) + 1) if height % size == width % size == 0]
    before = {tokens - (height // size) * (width // size): size for size in sizes}
    first = min((count for count in before if count >= 0), default=None)
    if first is None or first > tokens // 2:
        return None
    low, high = pixels.min(), pixels.max()
    scaled = ((pixels - low) / (high - low).clamp(min=1e-9) * 255).round().byte().cpu()
    shown = scaled if len(scaled) in (1, 3) else scaled[:1]
    return Picture.of(shown, before[first], first)


def _candidates(model: nn.Module, output: Any, batch: int, number: int) -> tuple[Candidate, ...]:
    """The most likely classes, if the output is one score per class; named if the model names them."""
    scores = getattr(output, "logits", output[0] if isinstance(output, (tuple, list)) and output else output)
    if not isinstance(scores, Tensor) or scores.dim() != 2 or len(scores) != batch or scores.shape[1] < 2:
        return ()
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    return most_likely(scores[number].float().softmax(-1).cpu(), lambda label: str(names.get(label, label)))
