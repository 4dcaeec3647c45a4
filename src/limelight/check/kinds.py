"""Which promises each kind of object should keep."""

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
from limelight.check.promises.promise import Promise

_ALL = {
    promise.name: promise
    for promise in (
        *attention_weights.PROMISES,
        *masks.PROMISES,
        *padding.PROMISES,
        *permutation.PROMISES,
        *causality.PROMISES,
        *residuals.PROMISES,
        *structure.PROMISES,
        *dropout.PROMISES,
        *robustness.PROMISES,
        *positional_encoding.INSIDE,
    )
} | {"residual-inside": nested_blocks.RESIDUAL}


def _named(names: str) -> tuple[Promise, ...]:
    return tuple(_ALL[name] for name in names.split())


_MASKS = "mask-has-effect masked-weight mask-polarity right-lengths masked-values-leak large-scores"
_MANNERS = "in-place edge-shapes half dtype-device fully-masked"
_DROPOUT = "dropout-train dropout-eval"
_BLOCK = "residual norms norm-axis nonlinearity hidden-width projection-unused"
_ATTENTION = f"scale softmax-axis rows-sum-to-one {_MASKS}"

TABLES = (*positional_encoding.POSITIONS, *positional_encoding.TYPED)  # of functions that give one
PROMISES: dict[str, tuple[Promise, ...]] = {
    "masked-softmax": _named(f"softmax-axis rows-sum-to-one {_MASKS} {_MANNERS}"),
    "scaled-dot-product": _named(
        f"{_ATTENTION} heads-mix-positions permutation causality {_DROPOUT} {_MANNERS}"
    ),
    "dot-product-attention": _named(
        f"{_ATTENTION} heads-mix-positions permutation causality {_DROPOUT} {_MANNERS}"
    ),
    "additive-attention": _named(
        f"softmax-axis rows-sum-to-one query-matters {_MASKS} heads-mix-positions projection-unused "
        f"permutation "
        f"{_DROPOUT} {_MANNERS}"
    ),
    "multi-head-attention": _named(
        f"{_ATTENTION} heads heads-mix-positions projection-unused output-projection permutation "
        f"causality incremental "
        f"{_DROPOUT} {_MANNERS}"
    ),
    "causal-mask": causal_mask.CAUSAL,
    "positional-encoding": (
        *positional_encoding.POSITIONS,
        *_named(f"{_DROPOUT} in-place edge-shapes dtype-device"),
    ),
    "feed-forward": _named(
        f"position-wise norm-axis closing-residual nonlinearity hidden-width projection-unused "
        f"{_DROPOUT} in-place edge-shapes dtype-device"
    ),
    "encoder-block": _named(
        f"{_ATTENTION} heads heads-mix-positions {_BLOCK} permutation causality incremental {_DROPOUT} "
        f"{_MANNERS}"
    ),
    "decoder-block": _named(
        f"{_ATTENTION} cross-padding causality incremental batch-apart {_BLOCK} {_DROPOUT} {_MANNERS}"
    ),
    "encoder": _named(
        f"{_ATTENTION} heads heads-mix-positions depth residual-inside norm-axis closing-norm "
        f"projection-unused nonlinearity hidden-width "
        f"permutation causality positions-formula positions-differ padding "
        f"{_DROPOUT} {_MANNERS}"
    ),
    "decoder": _named(
        f"{_ATTENTION} cross-padding causality incremental batch-apart depth positions-formula "
        f"positions-differ residual-inside norm-axis projection-unused nonlinearity hidden-width "
        f"{_DROPOUT} {_MANNERS}"
    ),
    "sequence-model": _named(
        f"{_ATTENTION} cross-padding padding causality incremental batch-apart depth positions-formula "
        f"positions-differ residual-inside norm-axis projection-unused nonlinearity hidden-width "
        f"{_DROPOUT} {_MANNERS}"
    ),
    "patch-embedding": (
        *vision.PATCHES,
        *vision.PLACED,
        *_named(f"projection-unused {_DROPOUT} in-place edge-shapes dtype-device"),
    ),
    "vision-transformer": (
        *vision.WHOLE,
        *_named(
            f"scale softmax-axis rows-sum-to-one batch-apart depth norm-axis projection-unused "
            f"nonlinearity hidden-width "
            f"{_DROPOUT} in-place edge-shapes dtype-device"
        ),
    ),
}
