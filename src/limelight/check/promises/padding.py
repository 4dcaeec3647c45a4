"""Promises about padding: of a source, of tokens that a model is told, of a sequence of nothing else."""

import torch
from torch import nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import changed, pattern
from limelight.check.instruments.mask_behaviour import facts
from limelight.check.promises.masks import NO_MASK, described, first
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned


def _cross_padding(subject: Subject) -> Outcome:
    found = [fact for fact in facts(subject) if fact.mask.of_memory]
    if not found:
        return _padding(subject) if subject.has_source else inapplicable("it takes no mask over the source")
    for fact in found:
        if fact.leaks.any():
            b, t, s = first(fact.leaks)
            return broken(
                described(fact, b, t),
                f"position {s} of the source is padding: it changes nothing",
                "it changes the output",
            )
        if fact.lost.any():
            b, t, s = first(fact.lost)
            return broken(
                described(fact, b, t),
                f"position {s} of the source is shown: it changes the output",
                "nothing changes",
            )
    return KEPT


@torch.no_grad()
def _padding(subject: Subject) -> Outcome:
    """Where a model is told which token is padding, more padding changes nothing."""
    model, case = subject.model(), subject.case()
    told = [name for name, role in subject.told_by.items() if role == "pad"]
    known = [part for part in _parts(model) if isinstance(part, nn.Embedding) and part.padding_idx == 0]
    if not (told or known) or subject.form.inputs != "tokens":
        return inapplicable("it is not told which token is padding")
    if subject.masks:
        return inapplicable("its masks say what is padding")
    looked_at = case.x if case.source is None else case.source
    more = torch.cat([looked_at, torch.zeros_like(looked_at[:, :2])], 1)
    wider = Case(more) if case.source is None else Case(case.x, more)
    before = subject.call(model, case).out
    after = subject.call(model, wider).out
    after = after[:, : before.shape[1]]
    if not changed(before.reshape(len(before), -1, 1), after.reshape(len(before), -1, 1)).any():
        return KEPT
    what = "sequence" if case.source is None else "source"
    say = broken if told else warned
    return say(
        f"{told[0] if told else 'padding_idx'}=0; two tokens 0 are put behind each {what}",
        f"the same output for what was there: {numbers(before.flatten()[:3])} …",
        f"{numbers(after.flatten()[:3])} …",
    )


def _nothing_to_see(subject: Subject) -> Outcome:
    """A row that may attend to nothing."""
    working = [mask for mask in subject.masks if mask.effect]
    model, case = subject.model(), subject.case()
    if not subject.masks and subject.form.inputs == "tokens" and "pad" in subject.told_by.values():
        looked_at = case.x if case.source is None else case.source
        empty = torch.zeros_like(looked_at)
        out = subject.call(model, Case(empty) if case.source is None else Case(case.x, empty)).out
        what = "a sequence of padding alone"
        return (
            warned(what, "any numbers", "NaN, which spreads in training") if bool(out.isnan().any()) else KEPT
        )
    if not working:
        return inapplicable(NO_MASK if not subject.masks else "its mask does nothing")
    for mask in working:
        allowed = pattern(subject, mask, case).clone()
        allowed[0] = False
        if mask.way is None or not mask.way.can_say(allowed):
            continue
        try:
            out = subject.call(model, case, {mask.name: allowed}).out
        except Exception as error:
            return warned(f"{mask.name} hides every key of sequence 0", "an output without NaN", f"{error}")
        if bool(out.isnan().any()):
            return warned(
                f"{mask.name} hides every key of sequence 0",
                "zeros, or any numbers",
                "NaN, which spreads in training",
            )
    return KEPT


def _parts(model: object) -> list[nn.Module]:
    return list(model.modules()) if isinstance(model, nn.Module) else []


PROMISES = (
    Promise(
        "cross-padding",
        "padding of the source is hidden from the target",
        _cross_padding,
        "cross-attention needs the source's mask (memory mask, enc_valid_lens), not the target's",
    ),
    Promise(
        "padding",
        "padding changes nothing real",
        _padding,
        "the mask of padding tokens is made, and must reach the attention of encoder and decoder",
    ),
    Promise(
        "fully-masked",
        "a query that may look at nothing gives no NaN",
        _nothing_to_see,
        "softmax of -inf alone is NaN: fill such rows with zeros afterwards",
    ),
)
