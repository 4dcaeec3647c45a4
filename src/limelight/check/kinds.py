"""The kinds of objects that are checked: one table with everything that depends on the kind.

A new kind is one more entry of this table. Its promises are named by the keys of promises/registry.py:
`name` is a promise, `name:variant` is the same promise, tested in another way.
"""

import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of object: how it is recognised, what it should do, and how it is constructed and called."""

    name: str
    promises: tuple[str, ...]  # keys of promises/registry.py, in the order of the report

    # How it is recognised.
    names: str  # a pattern that its usual names fit, in lower case and without underscores
    may_be_class: bool = True
    may_be_function: bool = False
    with_heads: str | None = None  # the kind of such a class if its constructor takes a number of heads
    without_heads: str | None = None  # the kind of such a class if its code does not mention heads
    without_source: str | None = None  # the kind of such a class if its call takes only one sequence
    table_promises: tuple[str, ...] = ()  # instead of `promises`, for a function that returns a table

    # Its input: "scores", "size", "images", "vectors" or "tokens"; the most likely first.
    inputs: tuple[str, ...] = ("vectors",)
    arguments: tuple[str, ...] = ("x",)  # roles of required arguments whose names are unknown, in this order

    # What it is.
    is_attention: bool = False  # an attention function or layer
    is_bare: bool = False  # attention without projections: queries and keys have the width of one head
    is_additive: bool = False  # attention with additive scores: w·tanh(W_q q + W_k k)
    is_feed_forward: bool = False  # a network that treats each position separately
    is_positional: bool = False  # gives each position its own values
    is_encoder: bool = False  # a block or a stack with self-attention only
    is_decoder: bool = False  # a block or a stack with causal self-attention, and usually cross-attention
    is_block: bool = False
    is_stack: bool = False
    block: str | None = None  # of a stack: the kind of its blocks
    takes_layers: bool = True  # whether its constructor may take other layers as arguments

    # The lines to fill in if it could not be called (adapter.py).
    adapter_call: str = "x, mask=None"
    adapter_shapes: str = "(B, T, D), mask (B, T, S): True = may attend"
    adapter_constructor: str = "width, heads, hidden, depth, dropout=0.0"

    @property
    def reads_scores(self) -> bool:
        """Whether its input is a matrix of attention scores, (B, T, S)."""
        return self.inputs == ("scores",)

    @property
    def reads_size(self) -> bool:
        """Whether its input is a length, not a tensor."""
        return self.inputs == ("size",)

    @property
    def reads_images(self) -> bool:
        """Whether its input is a batch of images, (B, C, Y, X)."""
        return self.inputs == ("images",)

    @property
    def reads_tokens(self) -> bool:
        """Whether it is a whole model, whose usual input is token ids."""
        return self.inputs[0] == "tokens"

    @property
    def is_patch_embedding(self) -> bool:
        """Whether it only turns images into tokens."""
        return self.reads_images and not self.is_stack

    @property
    def has_one_input(self) -> bool:
        """Whether it reads one sequence, whatever the names of its arguments are."""
        return self.reads_scores or self.is_encoder or self.reads_images

    @property
    def may_have_memory(self) -> bool:
        """Whether it may read a target and a memory (the encoder output) or a source."""
        return self.is_decoder or self.reads_tokens

    @property
    def has_feed_forward(self) -> bool:
        """Whether a feed-forward network is part of it, so that its constructor may take a hidden width."""
        return self.is_feed_forward or self.is_block or self.is_stack


_MASK = "mask (B, T, S): True = may attend"
_POSITIONAL_PROMISES = "positions-formula positions-differ positions-added rotation positions-buffer"
_MASK_PROMISES = "mask-has-effect masked-weight mask-polarity right-lengths masked-values-leak large-scores"
_WEIGHT_PROMISES = f"scale softmax-axis rows-sum-to-one query-matters:inputs {_MASK_PROMISES}"
_ROBUSTNESS = "in-place edge-shapes dtype-device"
_ROBUSTNESS_WITH_MASKS = "in-place edge-shapes half dtype-device fully-masked"
_DROPOUT = "dropout-train dropout-eval"
_BLOCK_PROMISES = (
    "residual residual:query norms norm-axis nonlinearity hidden-width projection-unused initialised"
)
_BARE_PROMISES = (
    f"{_WEIGHT_PROMISES} returned-weights heads-mix-positions permutation causality "
    f"{_DROPOUT} {_ROBUSTNESS_WITH_MASKS}"
)
_DECODER_PROMISES = (
    "causality incremental batch-apart depth positions-formula:inside positions-differ:tokens "
    "residual:nested norm-axis projection-unused initialised nonlinearity hidden-width "
    f"{_DROPOUT} {_ROBUSTNESS_WITH_MASKS}"
)
_DOT_PRODUCT_NAMES = r"dotprod|scaleddot|sdpa|^luong(?!\w*coder)|^dotatt"


def _promises(*names: str) -> tuple[str, ...]:
    return tuple(" ".join(names).split())


# The order is the order in which names are compared with the patterns: the first that fits decides.
_TABLE = (
    Kind(
        "masked-softmax",
        _promises("softmax-axis rows-sum-to-one", _MASK_PROMISES, _ROBUSTNESS_WITH_MASKS),
        names=r"(mas[kqc]|pad|valid|length)\w*softmax|softmax\w*(mas[kqc]|len|pad|valid)",
        may_be_function=True,
        inputs=("scores",),
        arguments=("x", "lengths"),
        adapter_call="scores, mask=None",
        adapter_shapes=f"(B, T, S), {_MASK}",
    ),
    Kind(
        "causal-mask",
        _promises("causality:mask dtype-device:mask"),
        names=r"(subsequent|[ck]ausal|casual|lookahead|future|square|triang|autoregress|nopeak|tril)"
        r"\w*(mas[kqc]|bias$)|^lookahead$|^(dec(oder)?|tgt|trg|target)mask$"
        r"|(mas[kqc]|maschera)\w*(subsequent|causa|kausal|lookahead|futur)",
        may_be_class=False,
        may_be_function=True,
        inputs=("size",),
        adapter_call="size",
        adapter_shapes="-> (size, size)",
    ),
    Kind(
        "positional-encoding",
        _promises(_POSITIONAL_PROMISES, _DROPOUT, _ROBUSTNESS),
        table_promises=_promises(_POSITIONAL_PROMISES, "table-type"),
        names=r"^(?!.*(multihead|attention|attn)).*(pos(ition|icion|izion)?(al)?(en|em|s$|es$)|sinus|pe$|positiontable|posembed"
        r"|positionn?el|positionsk|(learned|learnable|trainable)pos$|temporalenc)",
        may_be_function=True,
        inputs=("vectors", "tokens"),
        is_positional=True,
        takes_layers=False,
        adapter_call="x",
        adapter_shapes="(B, T, D) -> (B, T, D)",
        adapter_constructor="width, max_len, dropout=0.0",
    ),
    Kind(
        "patch-embedding",
        _promises(
            "patch-order positions-differ:patches projection-unused initialised", _DROPOUT, _ROBUSTNESS
        ),
        names=r"patch(es|ify|emb|encod|proj)?|im(a)?ge?(to|2)(patch|tok)|image(emb|token)|convtoken",
        may_be_function=True,
        inputs=("images",),
        takes_layers=False,
        adapter_call="images",
        adapter_shapes="(B, C, Y, X) -> (B, patches, D)",
        adapter_constructor="image_size, patch_size, channels, width",
    ),
    Kind(
        "vision-transformer",
        _promises(
            "patch-order:inside residual:images residual:nested class-token all-patches "
            "positions-differ:images",
            "logits scale softmax-axis rows-sum-to-one batch-apart depth norm-axis projection-unused "
            "initialised nonlinearity hidden-width",
            _DROPOUT,
            _ROBUSTNESS,
        ),
        names=r"^(simple|tiny|small|mini)?vit(?!block|layer|mlp|att|emb)|vit$|vis(ion)?transformer",
        inputs=("images",),
        is_stack=True,
        adapter_call="images",
        adapter_shapes="(B, C, Y, X) -> (B, classes)",
        adapter_constructor="image_size, patch_size, channels, width, depth, heads, hidden, classes, "
        "dropout=0.0",
    ),
    Kind(
        "additive-attention",
        _promises(
            "softmax-axis rows-sum-to-one additive-scores query-matters",
            _MASK_PROMISES,
            "returned-weights heads-mix-positions projection-unused initialised permutation",
            _DROPOUT,
            _ROBUSTNESS_WITH_MASKS,
        ),
        names=r"additi?v|aditiv|bahdanau(?!\w*coder)|concatatt",
        may_be_function=True,
        arguments=("query", "key", "value"),
        is_attention=True,
        is_additive=True,
        takes_layers=False,
        adapter_call="queries, keys, values, mask=None",
        adapter_shapes=f"(B, T, D), (B, S, D), (B, S, D), {_MASK}",
        adapter_constructor="width, dropout=0.0",
    ),
    Kind(
        "scaled-dot-product",
        _promises(_BARE_PROMISES),
        names=_DOT_PRODUCT_NAMES,
        may_be_class=False,
        may_be_function=True,
        arguments=("query", "key", "value"),
        is_attention=True,
        is_bare=True,
        adapter_call="queries, keys, values, mask=None",
        adapter_shapes=f"(B, T, K), (B, S, K), (B, S, V), {_MASK}",
    ),
    Kind(
        "dot-product-attention",
        _promises(_BARE_PROMISES, "projection-unused initialised"),
        names=_DOT_PRODUCT_NAMES,
        with_heads="multi-head-attention",
        arguments=("query", "key", "value"),
        is_attention=True,
        is_bare=True,
        adapter_call="queries, keys, values, mask=None",
        adapter_shapes=f"(B, T, D), (B, S, D), (B, S, D), {_MASK}",
        adapter_constructor="dropout=0.0",
    ),
    Kind(
        "multi-head-attention",
        _promises(
            _WEIGHT_PROMISES,
            "returned-weights heads heads-mix-positions head-projections projection-unused initialised",
            "output-projection permutation causality incremental",
            _DROPOUT,
            _ROBUSTNESS_WITH_MASKS,
        ),
        names=r"mu[lit]+head|mha$|mhsa|msa$|selfatt|crossatt|causalatt|cachedatt"
        r"|^attention(layer)?$|headedatt",
        without_heads="single-head-attention",
        arguments=("query", "key", "value"),
        is_attention=True,
        takes_layers=False,
        adapter_call="queries, keys, values, mask=None",
        adapter_shapes=f"(B, T, D), (B, S, D), (B, S, D), {_MASK}",
        adapter_constructor="width, heads, dropout=0.0",
    ),
    Kind(
        "single-head-attention",
        _promises(
            _WEIGHT_PROMISES,
            "heads-mix-positions projection-unused permutation causality incremental",
            _DROPOUT,
            _ROBUSTNESS_WITH_MASKS,
        ),
        names=r"^(my)?(att\w*)?head$|^(my)?sa$|singlehead|onehead",
        arguments=("query", "key", "value"),
        is_attention=True,
        takes_layers=False,
        adapter_call="queries, keys, values, mask=None",
        adapter_shapes=f"(B, T, D), (B, S, D), (B, S, D), {_MASK}",
        adapter_constructor="width, head_width, dropout=0.0",
    ),
    Kind(
        "decoder-block",
        _promises(
            _WEIGHT_PROMISES,
            "cross-padding causality incremental batch-apart",
            _BLOCK_PROMISES,
            _DROPOUT,
            _ROBUSTNESS_WITH_MASKS,
        ),
        names=r"dec(oder)?(block|layer|blk)|^(pre|post)?(norm)?layer$"
        r"|(bloc|couche|capa)\w*dec|de[ck]od\w*(bloc|schicht)",
        may_be_function=True,
        without_source="encoder-block",
        arguments=("x", "source"),
        is_decoder=True,
        is_block=True,
        adapter_call="x, memory, mask=None, memory_mask=None",
        adapter_shapes=f"(B, T, D), (B, S, D), {_MASK}",
        adapter_constructor="width, heads, hidden, dropout=0.0",
    ),
    Kind(
        "encoder-block",
        _promises(
            _WEIGHT_PROMISES,
            "heads heads-mix-positions head-projections",
            _BLOCK_PROMISES,
            "permutation causality incremental",
            _DROPOUT,
            _ROBUSTNESS_WITH_MASKS,
        ),
        names=r"enc(oder)?(block|layer|blk)|(bloc|couche|capa)\w*enc|en[ck]od\w*(bloc|schicht)"
        r"|transformer(block|layer)|gpt\w*layer|vitlayer|bertlayer"
        r"|^(?!mlp|conv|ff|feed|patch)\w*block$",
        may_be_function=True,
        is_encoder=True,
        is_block=True,
        adapter_constructor="width, heads, hidden, dropout=0.0",
    ),
    Kind(
        "feed-forward",
        _promises(
            "position-wise norms:reused norm-axis closing-residual nonlinearity hidden-width "
            "projection-unused initialised",
            _DROPOUT,
            _ROBUSTNESS,
        ),
        names=r"feedf\w*ward|ffn?$|^mlp$|positionwise|pwff|^ffn|mlpblock|vitmlp|glu$",
        may_be_function=True,
        is_feed_forward=True,
        takes_layers=False,
        adapter_call="x",
        adapter_shapes="(B, T, D) -> (B, T, D)",
        adapter_constructor="width, hidden, dropout=0.0",
    ),
    Kind(
        "sequence-model",
        _promises(_WEIGHT_PROMISES, "logits cross-padding padding", _DECODER_PROMISES),
        names=r"seq2seq(?!\w*coder)"
        r"|encoderdecoder|predictor|gpt|languagemodel|^transformer(model)?$|translat"
        r"|(char|word)\w*model$"
        r"|(text|sequence|sentiment|token|transformer|review|news|sentence|satz|phrase)"
        r"\w*([ck]lassif|tagg|label|regress)",
        inputs=("tokens", "vectors"),
        is_stack=True,
        adapter_call="source, target",
        adapter_shapes="(B, S) tokens, (B, T) tokens",
    ),
    Kind(
        "encoder",
        _promises(
            _WEIGHT_PROMISES,
            "heads heads-mix-positions depth residual residual:nested norm-axis closing-norm "
            "projection-unused initialised nonlinearity hidden-width "
            "permutation causality positions-formula:inside positions-differ:tokens padding",
            _DROPOUT,
            _ROBUSTNESS_WITH_MASKS,
        ),
        names=r"encod(er|eur)$|^encoder|encoderstack",
        inputs=("vectors", "tokens"),
        is_encoder=True,
        is_stack=True,
        block="encoder-block",
    ),
    Kind(
        "decoder",
        _promises(_WEIGHT_PROMISES, "cross-padding", _DECODER_PROMISES),
        names=r"decod(er|eur)$|^decoder|decoderstack",
        without_source="sequence-model",
        inputs=("vectors", "tokens"),
        arguments=("x", "source"),
        is_decoder=True,
        is_stack=True,
        block="decoder-block",
        adapter_call="x, memory, mask=None, memory_mask=None",
        adapter_shapes=f"(B, T) tokens or (B, T, D), (B, S, D), {_MASK}",
    ),
)
KINDS = {kind.name: kind for kind in _TABLE}

# For names that fit no pattern of the table. The first that fits decides.
_OTHER_CLASS_NAMES = {
    "multi-head-attention": r"(?<!l)att?(n$|en[tcz]|n)|aufmerksam",
    "sequence-model": r"transformer|lm$",
}
_OTHER_FUNCTION_NAMES = {
    "sequence-model": r"^(make|build|create|get)(model|transformer|gpt)",
    "encoder": r"^(make|build|create|get)\w*encoder$",
    "decoder": r"^(make|build|create|get)\w*decoder$",
    "masked-softmax": r"softmax",
    "scaled-dot-product": r"^(?!.*mask$).*(attention|attend|att?n|aufmerksam)",
    "causal-mask": r"^(?=.*mask).*(make|get|create|build|gen)",
}
# Functions that use a model but are no part of one.
_NOT_A_PART = (
    r"(plot|show|draw|vis|display|print|train|fit|test|eval|run|check|compare|save|load|log|demo|main)"
)

# Classes that are used with a model but are no part of one.
_OTHER_CLASSES = (
    r"(lm|model\w*|classif\w*)head$|(class|cls)att"
    r"|loss|criterion|dataset|dataloader|trainer|schedul|optimi|config|tokeniz"
)


def kind_of_name(name: str, *, is_class: bool) -> Kind | None:
    """The kind of a class or function by its name alone."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().replace("_", "").lower()
    if not is_class and re.match(_NOT_A_PART, plain):
        return None
    if is_class and re.search(_OTHER_CLASSES, plain):
        return None
    for kind in KINDS.values():
        may_be = kind.may_be_class if is_class else kind.may_be_function
        if may_be and re.search(kind.names, plain):
            return kind
    for kind_name, pattern in (_OTHER_CLASS_NAMES if is_class else _OTHER_FUNCTION_NAMES).items():
        if re.search(pattern, plain):
            return KINDS[kind_name]
    return None
