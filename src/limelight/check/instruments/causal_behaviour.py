"""Whether an object is causal: by its name, by its source code, and by what it computes."""

import re

import torch
from torch import Tensor

from limelight.check.harness.mask_formats import causal_pattern
from limelight.check.harness.subject import Masks, Subject
from limelight.check.instruments.influence import influence
from limelight.check.instruments.op_trace import Attention, attentions

CAUSAL_NAME = re.compile(r"causal|masked|gpt|decod|autoregress|language", re.IGNORECASE)
CAUSAL_CODE = re.compile(
    r"causal|masked(?!_fill)|gpt|decod|autoregress|language|future|block_size|context_?(len|size|win)",
    re.IGNORECASE,
)


def self_influence(subject: Subject, *, training: bool = False, masks: Masks | None = None) -> Tensor:
    """-> (B, T, T): which positions influence which outputs, with a causal mask if a decoder takes one"""
    model = subject.model(training=training)
    masks = causal_masks(subject) if masks is None else masks
    return influence(subject, model, subject.case(), masks, of_itself=subject.has_source)


def causal_masks(subject: Subject) -> Masks:
    """The causal mask for each argument of a decoder with a source that can express one."""
    return masks_of_caller(subject) if subject.kind.may_have_memory and subject.has_source else {}


def masks_of_caller(subject: Subject) -> Masks:
    """The causal mask for each argument that can express one."""
    case = subject.case()
    length = case.x.shape[1]
    allowed = causal_pattern(len(case.x), length, length)
    masks = [mask for mask in subject.masks if not mask.over_memory]
    return {mask.name: allowed for mask in masks if mask.format and mask.format.can_express(allowed)}


def self_attentions(subject: Subject, *, training: bool = False) -> list[Attention]:
    """The attentions of a sequence to itself, with a causal mask if a decoder takes one."""
    case = subject.case()
    _, steps = subject.trace(subject.model(training=training), case, causal_masks(subject))
    length = case.x.shape[1]
    return [one for one in attentions(steps) if one.weights.shape[1:] == (length, length)]


def is_causal(subject: Subject, *, training: bool = False) -> bool:
    """Whether no output depends on a later position, and some depend on an earlier one."""
    found = self_influence(subject, training=training)
    future = torch.ones(found.shape[1:], dtype=torch.bool).triu(1)
    return not bool(found[:, future].any()) and bool(found[:, future.mT].any())
