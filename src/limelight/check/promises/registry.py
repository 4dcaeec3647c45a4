"""All promises by their keys."""

from limelight.check.promises import (
    attention_weights,
    causal_mask,
    causality,
    dropout,
    masks,
    nested_blocks,
    padding,
    permutation,
    positional_encoding,
    residuals,
    robustness,
    structure,
    vision,
)

MODULES = (
    attention_weights,
    masks,
    padding,
    causality,
    causal_mask,
    permutation,
    positional_encoding,
    residuals,
    nested_blocks,
    structure,
    dropout,
    robustness,
    vision,
)
PROMISES = {promise.key: promise for module in MODULES for promise in module.PROMISES}
