"""Promises about masks: that they do the right thing, for the right sequence, at any score."""

from itertools import permutations, product

import torch
from torch import Tensor

from limelight.check.harness.inputs import ATTENTION, DECODERS, Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.mask_behaviour import SMALL, Fact, facts, weights_under
from limelight.check.instruments.op_trace import attentions
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers

NO_MASK = "it takes no mask"


def first(where: Tensor) -> tuple[int, int, int]:
    b, t, s = where.nonzero()[0].tolist()
    return b, t, s


def described(fact: Fact, b: int, t: int) -> str:
    row = fact.allowed[b, t].tolist()
    shown = ", ".join("shown" if one else "hidden" for one in row)
    return f"{fact.mask.name} ({fact.mask.way}); sequence {b}, query {t}, keys: {shown}"


def _applies(subject: Subject, fact: Fact) -> bool:
    """A mask over the source of a decoder has a promise of its own."""
    return not (fact.mask.of_memory and subject.kind in (*DECODERS, "sequence-model"))


def _has_effect(subject: Subject) -> Outcome:
    found = [fact for fact in facts(subject) if _applies(subject, fact)]
    if not found:
        return inapplicable(NO_MASK)
    for fact in found:
        if not fact.mask.effect:
            b, t, s = first(~fact.allowed & fact.told)
            return broken(
                described(fact, b, t),
                f"key {s} is hidden: changing it changes nothing",
                "the output changes: the mask does nothing in any of the ways it can be said",
            )
    return _beside_another(subject, [fact for fact in found if fact.right]) or KEPT


@torch.no_grad()
def _beside_another(subject: Subject, working: list[Fact]) -> Outcome | None:
    """A mask that shows everything takes nothing away from one that hides something."""
    if subject.kind not in (*ATTENTION, "encoder-block", "encoder"):
        return None
    model, case = subject.model(), subject.case()
    for one, other in permutations(working, 2):
        if one.mask.name == other.mask.name:
            continue
        hide = {one.mask.name: one.allowed}
        alone = subject.call(model, case, hide).out
        try:
            both = subject.call(model, case, hide | {other.mask.name: torch.ones_like(other.allowed)}).out
        except Exception:  # whatever their code raises: one or the other
            continue
        if not torch.allclose(alone, both, atol=1e-4, equal_nan=True):
            b, t, s = first(~one.allowed & one.told)
            return broken(
                f"{described(one, b, t)}; and {other.mask.name} ({other.mask.way}) shows everything",
                f"key {s} stays hidden by {one.mask.name}",
                f"it is seen: beside {other.mask.name}, {one.mask.name} does not count",
                "two masks come together: both must reach the scores",
            )
    return None


def _hidden_weight(subject: Subject) -> Outcome:
    found = [fact for fact in facts(subject) if _applies(subject, fact) and fact.mask.effect]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else "its mask does nothing")
    for fact in found:
        lengths_wrong = not fact.right and fact.even_is_right
        if fact.heaviest > SMALL and not lengths_wrong and not _is_inverted(fact):
            assert fact.weights is not None
            heavy = fact.weights * ~fact.allowed.unsqueeze(1)
            b, h, t, s = (heavy == heavy.max()).nonzero()[0].tolist()
            return broken(
                described(fact, b, t),
                f"key {s} is hidden: its weight is 0",
                f"weights {numbers(fact.weights[b, h, t])}",
            )
        if bool(fact.lost.any()) and not lengths_wrong and not _is_inverted(fact):
            b, t, s = first(fact.lost)
            return broken(
                described(fact, b, t), f"key {s} is shown: changing it changes the output", "nothing changes"
            )
    return KEPT


def _is_inverted(fact: Fact) -> bool:
    """Whether what is hidden is seen and what is shown is not, as a rule; of rows that have both."""
    both = fact.told & (fact.allowed.any(-1, keepdim=True) & ~fact.allowed.all(-1, keepdim=True))
    wrong = (fact.seen != fact.allowed)[both].float()
    return bool(fact.leaks.any() and fact.lost.any() and wrong.mean() > 0.6)


def _polarity(subject: Subject) -> Outcome:
    found = facts(subject)
    if not found:
        return inapplicable(NO_MASK)
    working = [fact for fact in found if fact.mask.effect]
    for fact in working:
        if _is_inverted(fact):
            b, t, _ = first(fact.leaks) if fact.leaks.any() else first(fact.lost)
            return broken(
                described(fact, b, t),
                "what is hidden is not seen, what is shown is",
                "it is the other way round",
            )
        way = fact.mask.way
        if way and "key_padding" in fact.mask.name.lower() and way.style == "bool+":
            return broken(
                f"{fact.mask.name} (B, S), True at the padding, as torch has it",
                "True hides a key",
                "True shows it, and False hides it",
                "torch's key_padding_mask is True where a key is to be ignored",
            )
    said = [fact.mask for fact in working if fact.mask.way and fact.mask.way.style[-1] in "+-"]
    hiding = {mask.name: bool(mask.way and mask.way.hides_where_true) for mask in said}
    if len(set(hiding.values())) > 1:
        words = "; ".join(f"{name}: True {'hides' if hides else 'shows'}" for name, hides in hiding.items())
        return broken(words, "one polarity for all masks of one object", "two")
    return KEPT


def _right_lengths(subject: Subject) -> Outcome:
    found = [fact for fact in facts(subject) if fact.mask.effect]
    found = [fact for fact in found if fact.mask.way and "B" in fact.mask.way.layout]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else "no mask of its tells sequences apart")
    for fact in found:
        if not fact.right and fact.even_is_right:
            b, t, s = first(fact.leaks) if fact.leaks.any() else first(fact.lost)
            lengths = fact.allowed[:, 0].sum(-1).tolist()
            what = "hidden" if fact.leaks.any() else "shown"
            return broken(
                f"sequences of lengths {lengths} (all of one length: right). {described(fact, b, t)}",
                f"key {s} is {what} to every head of sequence {b}",
                "it is treated as in another sequence of the batch",
            )
    return KEPT


def _no_leak(subject: Subject) -> Outcome:
    found = [fact for fact in facts(subject) if _applies(subject, fact)]
    for fact in found:
        if not fact.mask.effect and _shown_masked(subject, fact):
            b, t, s = first(~fact.allowed & fact.told)
            return broken(
                described(fact, b, t),
                f"key {s} has no weight, and its value does not reach the output",
                "the weights that are returned are masked, those that mix the values are not",
            )
    found = [fact for fact in found if fact.mask.effect]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else "its mask does nothing")
    for fact in found:
        if fact.leaks.any() and fact.heaviest <= SMALL and not fact.even_is_right and not _is_inverted(fact):
            b, t, s = first(fact.leaks)
            return broken(
                described(fact, b, t), f"changing key {s} and its value changes nothing", "the output changes"
            )
        sums = None if fact.weights is None else fact.weights.sum(-1)
        if sums is not None and not bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-3)):
            b, h, t = (sums - 1).abs().gt(1e-3).nonzero()[0].tolist()
            assert fact.weights is not None
            return broken(
                described(fact, b, t),
                "what is shown shares all of the weight: the row adds up to 1",
                f"weights {numbers(fact.weights[b, h, t])}",
                "a mask that comes after the softmax leaves rows that add up to less than 1: mask the "
                "scores instead",
            )
    return KEPT


def _shown_masked(subject: Subject, fact: Fact) -> bool:
    """Whether the mask changes what is returned as weights, though not the output."""
    model, case = subject.model(), subject.case()
    free, masked = (_shown(subject, model, case, hide) for hide in ({}, {fact.mask.name: fact.allowed}))
    return free is not None and masked is not None and not torch.equal(free, masked)


@torch.no_grad()
def _shown(subject: Subject, model: object, case: Case, hide: dict[str, Tensor]) -> Tensor | None:
    """Weights that are returned, or left on the module."""
    returned = subject.call(model, case, hide).weights
    left = [
        value
        for value in vars(model).values()
        if isinstance(value, Tensor) and value.shape[-1:] == (case.keys,)
    ]
    return returned if returned is not None else left[0].clone() if left else None


@torch.no_grad()
def _large_scores(subject: Subject) -> Outcome:
    found = [fact for fact in facts(subject) if fact.mask.effect and fact.right]
    if not found:
        return inapplicable(NO_MASK if not subject.masks else "its mask does not work at ordinary scores")
    model = subject.model()
    for fact, seed in product(found, range(6)):
        case = _with_large_scores(subject, model, subject.case(seed=seed))
        weights = weights_under(subject, model, case, fact.mask, fact.allowed)
        if weights is None or bool(weights.isnan().any()):
            continue
        heavy = weights * ~fact.allowed.unsqueeze(1)
        if float(heavy.max()) > SMALL:
            b, h, t, _ = (heavy == heavy.max()).nonzero()[0].tolist()
            return broken(
                f"scores of tens of thousands; {described(fact, b, t)}",
                "hidden keys have no weight, whatever their scores",
                f"weights {numbers(weights[b, h, t])}",
            )
    return KEPT


def _with_large_scores(subject: Subject, model: object, case: Case, size: float = 4e4) -> Case:
    if subject.kind == "masked-softmax":
        return Case(case.x.sign() * size * torch.linspace(0.9, 1.1, case.x.numel()).view_as(case.x))
    _, steps = subject.trace(model, case)
    scores = [one.scores for one in attentions(steps) if one.scores is not None]
    largest = max((float(s[s.isfinite()].abs().median()) for s in scores), default=1.0)
    factor = (size / max(largest, 1e-6)) ** 0.5
    return case.each(lambda t: t * factor if t.is_floating_point() else t)


PROMISES = (
    Promise(
        "mask-has-effect",
        "a mask that is accepted has an effect",
        _has_effect,
        "the mask reaches forward, but not the function that computes the weights: follow it from call "
        "to call",
    ),
    Promise(
        "masked-weight",
        "hidden positions get no weight, shown ones do",
        _hidden_weight,
        "scores.masked_fill(hidden, -inf) before the softmax; a mask built along the wrong axis hides "
        "something else",
    ),
    Promise(
        "mask-polarity",
        "masks hide what they say, and all say it alike",
        _polarity,
        "write down once whether True means 'may attend' or 'hidden', and keep to it",
    ),
    Promise(
        "right-lengths",
        "each sequence gets its own mask, in every head",
        _right_lengths,
        "heads are folded into the batch as (b0 h0, b0 h1, b1 h0, …): repeat_interleave the lengths, do "
        "not repeat them",
    ),
    Promise(
        "masked-values-leak",
        "what is hidden reaches no output",
        _no_leak,
        "nothing but the masked weights may mix values; heads that are split or merged by a reshape "
        "alone mix positions; "
        "in a stack, every block needs the mask",
    ),
    Promise(
        "large-scores",
        "hidden stays hidden at large scores",
        _large_scores,
        "-10000 is not small when scores are large, and adding to a score does not replace it: fill with "
        "-inf",
    ),
)
