"""What a run says of an input and what it looks at meanwhile: the records that pages show."""

import base64
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from PIL import Image
from torch import Tensor, nn

from limelight.data.batching import Batch
from limelight.data.ragged import Ragged
from limelight.errors import WrongInput
from limelight.models.vit import ViT
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.sequence.shared import SequenceTask
from limelight.tasks.translate.search import Hypothesis, Search
from limelight.tasks.translate.task import SEARCH, Translate
from limelight.view import watch
from limelight.view.record import AttentionMap, Candidate, Picture, Record, pack

AnyTask = SequenceTask | Translate | ClassifyImages
Given = str | Path | bytes | Tensor
LONGEST = 512  # tokens: more cannot be told apart on a screen
MOST = 5  # candidates for one place
BEAMS = Search(beam=SEARCH.beam, n_best=SEARCH.beam)  # the same search, and all that it found


def look(model: nn.Module, task: AnyTask, several: Sequence[Given], name: str) -> list[Record | WrongInput]:
    """One record per input, in their order; what cannot be read has its refusal there.

    An input is a line of text; an image as the name of its file, its bytes or pixels; a sequence as a tensor.
    """
    model.eval()
    rows = [_read(model, task, given, number) for number, given in enumerate(several, 1)]
    good = [
        (row, _tokens(task, given, row))
        for given, row in zip(several, rows, strict=True)
        if isinstance(row, Tensor)
    ]
    if isinstance(task, Translate):
        found = iter(_translations(model, task, good))
    elif isinstance(task, ClassifyImages):
        found = iter([_image(cast(ViT, model), task, pixels) for pixels, _ in good])
    else:
        found = iter([_sequence(model, task, *pair) for pair in good])
    records: list[Record | WrongInput] = []
    for given, row in zip(several, rows, strict=True):
        if isinstance(row, WrongInput):
            records.append(row)
        else:
            known = {"name": name}
            if isinstance(given, str | Path):  # as it was typed; of a file, the name alone: pages travel
                text = Path(given).name if isinstance(task, ClassifyImages) else str(given)
                known["given"] = _utf8(text)
            records.append(next(found).model_copy(update=known))
    return records


def _read(model: nn.Module, task: AnyTask, given: Given, number: int) -> Tensor | WrongInput:
    """What the model is given: pixels, or the numbers of tokens."""
    try:
        if isinstance(task, ClassifyImages):
            return _not_too_fine(task.read(given, number), cast(ViT, model).patch)
        if isinstance(given, bytes):
            raise WrongInput("this run reads text, not images")
        if isinstance(task, Translate):
            row = given if isinstance(given, Tensor) else task.encode(model, str(given), number)
        else:
            row = task.encode(given, number)
        if len(row) > LONGEST:
            raise WrongInput(f"{len(row):,} tokens are too many to look at; allowed: {LONGEST}")
    except WrongInput as refusal:
        return refusal
    return row


def _tokens(task: AnyTask, given: Given, row: Tensor) -> list[str]:
    """The names of an input's tokens: its own words where it is a text, known or not."""
    if isinstance(task, ClassifyImages):
        return []
    return (
        [_utf8(token) for token in task.tokens(str(given))]
        if isinstance(given, str | Path)
        else task.show(row)
    )


def _utf8(text: str) -> str:
    """A name or an argument may be no UTF-8, which a page must be."""
    return text.encode(errors="backslashreplace").decode()


def _not_too_fine(pixels: Tensor, patch: int) -> Tensor:
    rows, columns = (size // patch for size in pixels.shape[1:])
    if rows * columns > LONGEST:
        raise WrongInput(f"{rows} × {columns} patches are too many to look at; allowed: {LONGEST}")
    return pixels


@dataclass(frozen=True)
class Seen:
    """Which maps there are, and (H, T, S) of each."""

    maps: tuple[AttentionMap, ...]
    layers: list[Tensor]

    @classmethod
    def of(cls, seen: dict[str, list[Tensor]]) -> "Seen":
        """From what `watch` saw of one input; a recurrent decoder looks once a token."""
        maps, layers, counts = [], [], dict[str, int]()
        for tap, passes in seen.items():
            part, queries, keys = _place(tap)
            weights_HTS = torch.cat(passes, 2)[0].cpu()
            number = counts[part] = counts.get(part, -1) + 1
            name = tap.removesuffix(".weights")
            maps.append(
                AttentionMap(
                    name=name, part=part, layer=number, heads=len(weights_HTS), queries=queries, keys=keys
                )
            )
            layers.append(weights_HTS)
        return cls(tuple(maps), layers)


def _place(tap: str) -> tuple[str, str, str]:
    """Where an attention is, which side looks, and at which."""
    if tap.startswith("pooling."):
        return "pooling", "question", "source"
    if tap.startswith("decoder.") and "self_attention" in tap:
        return "decoder", "target", "written"
    if "self_attention" in tap:
        return "encoder", "source", "source"
    return "decoder to encoder", "target", "source"


@torch.no_grad()
def look_at_items(
    model: nn.Module, task: SequenceTask, items: Tensor, tokens: list[str]
) -> tuple[Tensor, Seen, list[str]]:
    """(T) -> the outputs (T, L) or (L), what was seen, and the names of what looked"""
    batch = Batch(items.unsqueeze(0), torch.zeros(1), torch.zeros(1)).to(_device(model))
    with watch(model) as found:
        outputs = model(*task.arguments(batch))[0].float().cpu()
    seen = Seen.of(found)
    has_class_token = seen.layers[0].shape[-1] == len(tokens) + 1
    return outputs, seen, ["[class]", *tokens] if has_class_token else tokens


def _sequence(model: nn.Module, task: SequenceTask, items: Tensor, names: list[str]) -> Record:
    outputs, seen, tokens = look_at_items(model, task, items, names)
    answer = task.answer(outputs, len(items))
    choices = task.choices(outputs, len(items))
    name = (task.answers.names or tuple(tokens)).__getitem__
    by_item = choices.dim() == 2
    return Record(
        name="",
        given=task.reader.write(items),
        answer=answer.text,
        probability=answer.probability,
        sides={"source": tuple(tokens), "question": ("[question]",)},
        maps=seen.maps,
        weights=pack(seen.layers),
        candidates=() if by_item else _likely(choices, name),
        steps=tuple(_likely(one, name) for one in choices) if by_item else (),
        stepped="source" if by_item else "",
    )


def _image(model: ViT, task: ClassifyImages, pixels: Tensor) -> Record:
    with watch(model) as found:
        choices = task.probabilities(model, pixels.unsqueeze(0).to(_device(model)))[0]
    seen, likely = Seen.of(found), _likely(choices, task.names.__getitem__)
    rows, columns = (size // model.patch for size in pixels.shape[1:])
    patches = tuple(f"{row}, {column}" for row in range(rows) for column in range(columns))
    first = ("[class]",) if model.class_token is not None else ()
    return Record(
        name="",
        given="",
        answer=likely[0].text,
        probability=likely[0].probability,
        sides={"source": first + patches},
        maps=seen.maps,
        weights=pack(seen.layers),
        candidates=likely,
        image=Picture(png=_png(pixels), rows=rows, columns=columns, first=len(first)),
    )


def _translations(
    model: nn.Module, task: Translate, rows: Sequence[tuple[Tensor, list[str]]]
) -> list[Record]:
    """They are written together and looked at one by one."""
    found = task.decode(model, Ragged.of([row for row, _ in rows]), BEAMS) if rows else []
    return [_translation(model, task, *row, beams) for row, beams in zip(rows, found, strict=True)]


@torch.no_grad()
def _translation(
    model: nn.Module, task: Translate, source: Tensor, tokens: list[str], beams: list[Hypothesis]
) -> Record:
    language, end = task.target, torch.tensor([task.target.end])
    texts = [language.write(torch.tensor(beam.tokens, dtype=torch.long)) for beam in beams]
    likely = [
        Candidate(text=text, probability=math.exp(beam.log_probability))
        for text, beam in zip(texts, beams, strict=True)
    ]
    target = torch.cat((torch.tensor(beams[0].tokens, dtype=torch.long), end))
    written = torch.cat((torch.tensor([language.begin]), target[:-1]))
    with watch(model) as found:
        logits_TV = model(*(row.unsqueeze(0).to(_device(model)) for row in (source, written)))
    seen = Seen.of(found)
    return Record(
        name="",
        given=task.source.write(source),
        answer=texts[0],
        probability=likely[0].probability,
        sides={
            "source": tuple(tokens),
            "target": tuple(language.show(target)),
            "written": tuple(language.show(written)),
        },
        maps=seen.maps,
        weights=pack(seen.layers),
        candidates=tuple(likely),
        steps=tuple(_likely(one, language.name) for one in logits_TV.float().softmax(-1).cpu()),
        stepped="target",
    )


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _likely(probabilities: Tensor, name: Callable[[int], str]) -> tuple[Candidate, ...]:
    """(L) -> the most likely, the best first"""
    best = probabilities.topk(min(MOST, len(probabilities)))
    found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(Candidate(text=name(number), probability=value) for number, value in found)


def _png(pixels: Tensor) -> str:
    """(C, Y, X) -> base64"""
    image = Image.fromarray(pixels.permute(1, 2, 0).squeeze(-1).cpu().numpy())
    stream = io.BytesIO()
    image.save(stream, "png")
    return base64.b64encode(stream.getvalue()).decode()
