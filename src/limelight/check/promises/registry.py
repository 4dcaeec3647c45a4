"""All promises by their keys."""

from limelight.check.promises import (
    attention_weights,
    causal_mask,
    causality,
    dropout,
    logits,
    masks,
    nested_blocks,
    padding,
    parameters,
    permutation,
    positional_encoding,
    residuals,
    returned_weights,
    robustness,
    rotation,
    separate_inputs,
    structure,
    vision,
)

MODULES = (
    attention_weights,
    returned_weights,
    masks,
    padding,
    causality,
    causal_mask,
    permutation,
    positional_encoding,
    rotation,
    residuals,
    nested_blocks,
    separate_inputs,
    structure,
    parameters,
    logits,
    dropout,
    robustness,
    vision,
)
PROMISES = {promise.key: promise for module in MODULES for promise in module.PROMISES}
