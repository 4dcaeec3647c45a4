"""Promises about padding: of a source, of tokens, and of sequences that are all padding."""

import re

import torch
from torch import nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import differs
from limelight.check.instruments.mask_behaviour import NO_EFFECT, NO_MASK, first, mask_behaviours
from limelight.check.instruments.mask_influence import pattern_for
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding

# A model that compares its tokens with 0 has a padding token, even if it takes no argument for it.
PADDING_CODE = re.compile(r"\b(src|tgt|trg|source|target|tokens?|inputs?|input_ids|seq|idx|x) ?(!=|==) ?0\b")
NAN = "NaN, which spreads to all weights in training"


def _cross_padding(subject: Subject) -> Finding:
    found = [one for one in mask_behaviours(subject) if one.mask.over_memory]
    if not found:
        return _padding(subject) if subject.has_source else inapplicable("it takes no mask for the source")
    for one in found:
        if one.leaks.any():
            b, t, s = first(one.leaks)
            return broken(
                one.describe(b, t),
                f"position {s} of the source is padding: changing it does not change the output",
                "the output changes",
                place=one.call_place,
            )
        if one.lost.any():
            b, t, s = first(one.lost)
            return broken(
                one.describe(b, t),
                f"position {s} of the source is allowed: changing it changes the output",
                "the output does not change",
                place=one.call_place,
            )
    return KEPT


@torch.no_grad()
def _padding(subject: Subject) -> Finding:
    """If a model has a padding token, more padding does not change its output."""
    model, case = subject.model(), subject.case()
    arguments = [name for name, role in subject.constructor_roles.items() if role == "pad"]
    if case.source is not None:
        arguments = [name for name in arguments if not re.match(r"tgt|trg|target", name.lower())]
    embeddings = [
        part for part in _modules(model) if isinstance(part, nn.Embedding) and part.padding_idx == 0
    ]
    compared = PADDING_CODE.search(subject.source_code)
    if not (arguments or embeddings or compared) or subject.form.inputs != "tokens":
        return inapplicable("it has no padding token")
    if subject.masks:
        return inapplicable("padding is given by its masks")
    attended = case.x if case.source is None else case.source
    longer = torch.cat([attended, torch.zeros_like(attended[:, :2])], 1)
    padded = Case(longer) if case.source is None else Case(case.x, longer)
    before = subject.call(model, case).out
    after = subject.call(model, padded).out
    after = after[:, : before.shape[1]]
    if not differs(before.reshape(len(before), -1, 1), after.reshape(len(before), -1, 1)).any():
        return KEPT
    what = "sequence" if case.source is None else "source"
    conclude = broken if arguments else warned
    given = f"{arguments[0] if arguments else 'padding_idx'}=0" if arguments or embeddings else ""
    given = given or f"padding is token 0, by the code `{compared[0] if compared else ''}`"
    return conclude(
        f"{given}; two tokens 0 are appended to each {what}",
        f"the same output at the other positions: {numbers(before.flatten()[:3])} …",
        f"{numbers(after.flatten()[:3])} …",
    )


def _fully_masked(subject: Subject) -> Finding:
    """A query that may attend to no key."""
    working = [mask for mask in subject.masks if mask.has_effect]
    model, case = subject.model(), subject.case()
    has_padding = "pad" in subject.constructor_roles.values()
    if not subject.masks and subject.form.inputs == "tokens" and has_padding:
        attended = case.x if case.source is None else case.source
        empty = torch.zeros_like(attended)
        out = subject.call(model, Case(empty) if case.source is None else Case(case.x, empty)).out
        if bool(out.isnan().any()):
            return warned("a sequence with nothing but padding", "an output without NaN", NAN)
        return KEPT
    if not working:
        return inapplicable(NO_MASK if not subject.masks else NO_EFFECT)
    for mask in working:
        allowed = pattern_for(subject, mask, case).clone()
        allowed[0] = False
        if mask.format is None or not mask.format.can_express(allowed):
            continue
        example = f"{mask.name} hides every key of sequence 0"
        try:
            out = subject.call(model, case, {mask.name: allowed}).out
        except Exception as error:
            return warned(example, "an output without NaN", f"{error}")
        if bool(out.isnan().any()):
            return warned(example, "zeros, or any other numbers", NAN)
    return KEPT


def _modules(model: object) -> list[nn.Module]:
    return list(model.modules()) if isinstance(model, nn.Module) else []


PROMISES = (
    Promise(
        "cross-padding",
        "cross-attention ignores the padding of the source",
        _cross_padding,
        "cross-attention gets no mask, or the mask of the target: it needs that of the source (memory_mask, "
        "enc_valid_lens)",
    ),
    Promise(
        "padding",
        "padding does not change the output at real tokens",
        _padding,
        "the padding mask is created, but not passed on to every attention of the encoder and the decoder",
    ),
    Promise(
        "fully-masked",
        "a query whose keys are all masked does not give NaN",
        _fully_masked,
        "the softmax of a row of -inf is NaN: replace the weights of such rows by zeros",
    ),
)
