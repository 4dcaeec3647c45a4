"""What people call things: kinds of objects, arguments of constructors, arguments of calls.

The ways of d2l, of the UvA course, of torch and of the annotated Transformer, and what else is usual.
"""

import re
import unicodedata
from collections.abc import Iterable

KINDS = (
    "masked-softmax",
    "scaled-dot-product",
    "dot-product-attention",
    "additive-attention",
    "multi-head-attention",
    "causal-mask",
    "positional-encoding",
    "feed-forward",
    "encoder-block",
    "decoder-block",
    "encoder",
    "decoder",
    "sequence-model",
    "patch-embedding",
    "vision-transformer",
)

# Of a name in small letters without underscores: the first that fits.
_KIND_NAMES = {
    "masked-softmax": r"(mas[kqc]|pad|valid|length)\w*softmax|softmax\w*(mas[kqc]|len|pad|valid)",
    "causal-mask": r"(subsequent|[ck]ausal|lookahead|future|square|triang|autoregress|nopeak|tril)"
    r"\w*(mas[kqc]|bias$)|^lookahead$|^(dec(oder)?|tgt|trg|target)mask$"
    r"|(mas[kqc]|maschera)\w*(subsequent|causa|kausal|lookahead|futur)",
    "positional-encoding": r"pos(ition|icion|izion)?(al)?(en|em|s$|es$)|sinus|pe$|positiontable|posembed"
    r"|positionn?el|positionsk|(learned|learnable|trainable)pos$|temporalenc",
    "patch-embedding": r"patch(es|ify|emb|encod|proj)?|im(a)?ge?(to|2)(patch|tok)|image(emb|token)"
    r"|convtoken",
    "vision-transformer": r"^(simple|tiny|small|mini)?vit(?!block|layer|mlp|att|emb)|vit$"
    r"|vis(ion)?transformer",
    "additive-attention": r"additi?v|aditiv|bahdanau(?!\w*coder)|concatatt",
    "dot-product-attention": r"dotprod|scaleddot|sdpa|^luong(?!\w*coder)|^dotatt",
    "multi-head-attention": r"multihead|mha$|mhsa|selfatt|crossatt|causalatt|cachedatt"
    r"|^attention(layer)?$|headedatt",
    "decoder-block": r"dec(oder)?(block|layer|blk)|^(pre|post)?(norm)?layer$"
    r"|(bloc|couche|capa)\w*dec|de[ck]od\w*(bloc|schicht)",
    "encoder-block": r"enc(oder)?(block|layer|blk)|(bloc|couche|capa)\w*enc|en[ck]od\w*(bloc|schicht)"
    r"|transformer(block|layer)|gptlayer|vitlayer|bertlayer"
    r"|^(?!mlp|conv|ff|feed|patch)\w*block$",
    "feed-forward": r"feedforward|ffn?$|^mlp$|positionwise|pwff|^ffn|mlpblock|vitmlp|glu$",
    "sequence-model": r"seq2seq(?!\w*coder)"
    r"|encoderdecoder|predictor|gpt|languagemodel|^transformer(model)?$|translat"
    r"|(char|word)\w*model$"
    r"|(text|sequence|sentiment|token|transformer|review|news|sentence|satz|phrase)"
    r"\w*([ck]lassif|tagg|label|regress)",
    "encoder": r"encod(er|eur)$|^encoder|encoderstack",
    "decoder": r"decod(er|eur)$|^decoder|decoderstack",
}


# What functions do that are no part of a model, whatever they do it with.
_DOING = r"(plot|show|draw|vis|display|print|train|fit|test|eval|run|check|compare|save|load|log|demo|main)"


def kind_of_name(name: str, *, is_class: bool) -> str | None:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().replace("_", "").lower()
    if not is_class and re.match(_DOING, plain):
        return None
    for kind, pattern in _KIND_NAMES.items():
        if not re.search(pattern, plain):
            continue
        if kind == "dot-product-attention" and not is_class:
            return "scaled-dot-product"
        if kind == "causal-mask" and is_class:
            continue
        if kind == "multi-head-attention" and not is_class:
            continue
        if kind in ("vision-transformer", "sequence-model", "encoder", "decoder") and not is_class:
            continue
        return kind
    if is_class and re.search(r"att?(n$|en[tcz]|n)|aufmerksam", plain):
        return "multi-head-attention"
    if is_class and re.search(r"transformer|lm$", plain):
        return "sequence-model"
    if not is_class and re.search(r"^(make|build|create|get)(model|transformer|gpt)", plain):
        return "sequence-model"
    if not is_class and "softmax" in plain:
        return "masked-softmax"
    if not is_class and re.search(r"attention|attend|att?n|aufmerksam", plain):
        return "scaled-dot-product"
    if not is_class and "mask" in plain and re.search(r"make|get|create|build|gen", plain):
        return "causal-mask"
    return None


# Arguments of constructors: what each is for. The first that fits.
_BUILD_ROLES = {
    "config": r"config|cfg|args|params|hparams|opt",
    "dropout": r"\w*drop\w*|p|rate|(prob|taxa|tasa|taux)\w*",
    "head_width": r"(dim|d|size|width)_?heads?|heads?_?(dim|size|width)|d_?[kqv]|d_?(key|value|query)s?",
    "heads": r"(n|num|number_of)?_?(attn|attention|self)?_?heads?(_num)?|h|nheads?|n_?h|heads?_?count"
    r"|(n|nb|num)_?(tetes|cabezas|cabecas|kopf|koepfe|teste)",
    "depth": r"(n|num|number_of)?_?(enc|dec|encoder|decoder)?_?(layers?|blks?|blocks?)|depth|n|nlayers?"
    r"|stacks?|(n|nb|num)_?(couches|capas|schichten|strati)|tiefe",
    "expansion": r"(forward_|ff_|mlp_|ffn_)?(expansion|ratio|mult|multiplier)(_factor)?",
    "hidden": r"(ffn|ff|mlp)_?(num_)?(hiddens?|dim|size|width|hidden_dim|hid|hidden_size)|d_?ff\w*|dff"
    r"|dim_?(ff|feedforward|mlp)"
    r"|feed_?forward(_dim|_size|_hidden)?|d_?inner\w*|inner_?(dim|size)|intermediate_?(size|dim)"
    r"|hidden_features|n_?inner"
    r"|feedforward_dim|mlp_num_hiddens|ffn_hidden\w*|d_mlp|hidden_units|ffn?|mlp|pff?(_dim)?",
    "pad": r"(src_|tgt_|trg_|source_|target_)?pad(ding)?(_idx|_id|_index|_token|_token_id)?",
    "vocabulary": r"(src|tgt|trg|source|target|input|output|enc|dec|n)?_?(vocab\w*|n_?tokens?|tokens"
    r"|num_embeddings|num_tokens)"
    r"|vocabulary\w*|ntokens?",
    "longest": r"max_?\w*(len|length|seq\w*|pos\w*|tokens|size)|block_size|context\w*|(seq"
    r"|sequence)_?(len|length|size)|n_?(positions|ctx)"
    r"|length|maxlen|num_positions|max_?t|window|t_max|n_?pos\w*",
    "image": r"(img|image)_?(size|res|resolution|hw|shape|dims?)|input_(size|res|resolution|hw)|img|image",
    "patches": r"(n|num|number_of)_?patch(es)?",
    "patch": r"patch(_?(size|dim|width))?|p_?size",
    "channels": r"(n|num|in|input|img|image)?_?(channels?|chans?)|c|in_c|in_ch",
    "classes": r"(n|num)?_?(classes|labels|class|cls|outputs)|out_?classes|n_?out",
    "temperature": r"temperature|temp",
    "activation": r"act(ivation)?(_fn|_layer|_func)?",
    "index": r"i|idx|layer_?(idx|id|index|num)|blk_?idx",
    "rate": r"lr|learning_rate|warmup|max_iters|weight_decay|betas?|lr_\w+",
    "device": r"device",
    "shape": r"norm\w*_shape|normalized_shape",
    "batch_first": r"batch_first",
    "flag": r"(is_|use_)?(causal|masked|bias|qkv_bias|norm_first|pre_?norm)|bias|mask",
    "width": r"\w*(d_?modell?[oe]?|dim_?modell?[oe]|dim|dims|embed\w*|emb|hiddens?|width|size|n_?embd"
    r"|features?|units|channels|d"
    r"|d_?hid|inputs?|outputs?|num_hiddens)"
    r"|d|e|dmodel|n_?hid|c_?in",
}
_PART_ROLES = {
    "cross-part": r"(src|cross|enc_dec|encdec|memory|source|encoder|enc)_?(attn|attention|att|mha)\w*",
    "attention-part": r"(self_?|multi_?head_?|masked_?)?(attn|attention|mha|att)(_layer)?",
    "feed-forward-part": r"feed_?forward|ff|ffn|mlp|pos_?ffn?|feedforward_layer|pwff",
    "decoder-layer-part": r"dec(oder)?_?(layer|block)",
    "layer-part": r"(enc(oder)?_?)?(layer|block|blk)(_cls|_class)?",
    "encoder-part": r"encoder|enc",
    "decoder-part": r"decoder|dec",
    "embedding-part": r"(src|tgt|trg|source|target|input|output)_?(embed\w*|emb)|embedding|embed",
    "generator-part": r"generator|head|out_proj|projection",
}


def build_role(name: str, *, is_layerless: bool) -> str | None:
    """What an argument of a constructor is for; as in the annotated Transformer, it may be a layer."""
    plain = name.lower().strip("_")
    if not is_layerless:
        for role, pattern in _PART_ROLES.items():
            if re.fullmatch(pattern, plain):
                return role
    if name == "N":
        return "depth"
    for role, pattern in _BUILD_ROLES.items():
        if re.fullmatch(pattern, plain):
            return role
    return None


# Arguments of calls.
_CALL_ROLES = {
    "carry": r"(use|return|output|with)_?(cache|state|present|past|kv)\w*",
    "weights": r"(return|need|output|with|get)_?\w*(att\w*|weights?|scores?|maps?)",
    "average": r"average\w*",
    "causal": r"\w*causal\w*",
    "lengths": r"\w*(valid_?len\w*|lens|lengths?|valid)|len_\w+|\w+_len",
    "other": r"(additional|prepend|prefix|mem)_\w*mask|\w*kv_mask",
    "mask": r"\w*(mas[kc]|msk|masqu|padding|pad|allowed|attn_bias|visible|keep|attend|blocked"
    r"|ignore|missing)\w*",
    "state": r"(states?|caches?|past\w*|kv_?caches?|memory_state|layer_past|incremental\w*|present\w*"
    r"|prev\w*)",
    "dropout": r"drop\w*",
    "axis": r"dim|axis",
    "value": r"v|vs|values?|v_?(in|input|x)|x_?v",
    "key": r"k|ks|keys?|k_?(in|input|x)|x_?k|kv",
    "memory": r"mem\w*|m|enc\w*|encoder\w*|context|ctx|annotations|source\w*|cross\w*|y|kv\w*",
    "query": r"q|qs|quer(y|ies)|q_?(in|input|x)|x_?q|hidden(_state)?|dec(oder)?_?(hidden|state)\w*|s|s_prev",
    "source": r"src\w*|source\w*|en_\w+",
    "target": r"tgt\w*|trg\w*|target\w*|dec\w*|decoder\w*|labels|targets",
    "x": r"x|inputs?|inp|emb\w*|hidden_states|tokens?|idx|ids|input_ids|seq\w*|features?|data|xs?"
    r"|images?|img|h|t|scores?|logits|attn\w*|e|z",
}


def call_role(name: str) -> str | None:
    plain = name.lower().strip("_")
    for role, pattern in _CALL_ROLES.items():
        if re.fullmatch(pattern, plain):
            return role
    return None


def is_of_memory(name: str, others: Iterable[str]) -> bool:
    """Whether a mask lies over the source, where an object has a source and a target."""
    plain = name.lower()
    if re.search(r"src|source|mem|enc|cross|key_padding", plain) and not re.search(
        r"tgt|trg|target|self", plain
    ):
        return True
    if re.search(r"tgt|trg|target|dec|self|look|causal|future|subsequent|attn_mask", plain):
        return False
    # A single mask beside one that is named for the target is that of the source.
    return any(re.search(r"tgt|trg|target|self|look|causal", other.lower()) for other in others)
