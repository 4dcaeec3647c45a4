"""The usual names of arguments, and what they mean.

The names of d2l, the UvA course, torch and the annotated Transformer, and other common ones.
"""

import re
from collections.abc import Iterable

# The roles of constructor arguments. The first pattern that fits decides.
_CONSTRUCTOR_ROLES = {
    "class": r"\w+_(cls|class|klass)",
    "config": r"(\w+_)?(config\w*|cfg|conf|args|params|hparams|hyper\w*|settings)|opt|hp",
    "dropout": r"\w*drop\w*|p|p_?d|rate|(prob|taxa|tasa|taux)\w*|(?!learning)\w+_(rate|prob)",
    "eps": r"(\w+_)?eps(ilon)?",
    "head_width": r"(dim|d|size|width)_?heads?|heads?_?(dim|size|width)|d_?[kqv]|d_?(key|value|query)s?",
    "heads": r"(n|num|number|number_of)?_?(attn|attention|self)?_?heads?(_num)?|h|nheads?|n_?h|heads?_?count"
    r"|(n|nb|num)_?(tetes|cabezas|cabecas|kopf|koepfe|teste)",
    "depth": r"(n|num|number|number_of)?_?(enc|dec|encoder|decoder)?_?(layers?|blks?|blocks?|stacks?)"
    r"|depth|n|nlayers?|(layers?|blocks?)_?count|(n|nb|num)_?(couches|capas|schichten|strati)|tiefe",
    "expansion": r"(forward_|ff_|mlp_|ffn_)?(expansion|ratio|mult|multiplier)(_factor)?",
    "hidden": r"(ffn|ff|mlp)_?(num_)?(hiddens?|dim|size|width|hidden_dim|hid|hidden_size)|d_?ff\w*|dff"
    r"|dim_?(ff|feedforward|mlp)"
    r"|feed_?forward(_dim|_size|_hidden)?|d_?inner\w*|inner_?(dim|size)|intermediate_?(size|dim)"
    r"|hidden_features|n_?inner"
    r"|filter_?(size|dim)|(?!\w*_(in|out)(put)?)(\w+_)?ffnn?(_\w+)?|feedforward_dim|mlp_num_hiddens|ffn_hidden\w*|d_mlp|hidden_units|ffn?|mlp|pff?(_dim)?",
    "pad": r"((src|tgt|trg|source|target|enc|dec)_)?pad(ding)?(_(src|tgt|trg|source|target|enc|dec))?"
    r"(_idx|_id|_index|_token|_token_id)?",
    "vocabulary": r"(n_?|num_?)?(src|tgt|trg|source|target|input|output|enc|dec|n|i|t)?_?"
    r"(vocab\w*|n_?tokens?|tokens|num_embeddings|num_tokens)(_(src|tgt|trg|enc|dec|source|target))?"
    r"|vocabulary\w*|ntokens?",
    "longest": r"max_?\w*(len|length|seq\w*|pos\w*|tokens|size)|block_size|context\w*|(seq"
    r"|sequence)_?(len|length|size)|n_?(positions|ctx)"
    r"|length|maxlen|num_positions|max_?t|window|t_max|n_?pos\w*",
    "image": r"(img|image)_?(size|res|resolution|hw|shape|dims?)|input_(size|res|resolution|hw|shape)"
    r"|img|image|chw|image_?(height|width)|img_?[hw]",
    "patches": r"(n|num|number_of)_?patch(es)?",
    "patch": r"patch(_?(size|dim|width))?|p_?size|window_size",
    "channels": r"(n|num|in|input|img|image)?_?(channels?|chans?)|c|in_c|in_ch",
    "classes": r"(n|num|number|number_of)?_?(classes|labels|class|cls|outputs)|out_?classes|n_?out",
    "temperature": r"temperature|temp|scale",
    "base": r"(rope_?)?(theta|base)",
    "activation": r"act(ivation)?(_fn|_layer|_func)?",
    "index": r"i|idx|layer_?(idx|id|index|num)|blk_?idx",
    "rate": r"lr|learning_rate|warmup|max_iters|weight_decay|betas?|lr_\w+",
    "device": r"device",
    "shape": r"norm\w*_shape|normalized_shape",
    "batch_first": r"batch_first",
    "flag": r"(is_|use_)?(causal|masked|bias|qkv_bias|norm_first|pre_?norm)|bias|mask",
    "width": r"\w*(d_?modell?[oe]?|dim_?modell?[oe]|dim|dims|embed\w*|emb|hiddens?|width|size|n_?embd"
    r"|features?|units|channels|word_?vec\w*|d"
    r"|d_?hid|inputs?|outputs?|num_hiddens)"
    r"|d|e|dmodel|n_?hid|c_?in",
}
# Arguments that are layers, as in the annotated Transformer.
_LAYER = r"(_?(layer|block|module|sublayer|net|network|fn))?"
_SIDE = r"(src|tgt|trg|source|target|input|output|enc|dec|encoder|decoder)"
_LAYER_ROLES = {
    "cross-part": rf"(src|cross|enc_dec|encdec|memory|source|encoder|enc)_?(attn|attention|att|mha){_LAYER}",
    "attention-part": rf"(self_?|multi_?head(ed)?_?|masked_?)*(attn|attention|mha|att){_LAYER}",
    "feed-forward-part": rf"(feed_?forward|ff|ffn|mlp|pos_?ffn?|pwff|point_?wise){_LAYER}",
    "layers-part": r"((enc|dec)(oder)?_?)?(layers|blocks)",
    "decoder-layer-part": r"dec(oder)?_?(layer|block)",
    "layer-part": r"(enc(oder)?_?)?(layer|block|blk)(_cls|_class)?",
    "encoder-part": r"encoder|enc",
    "decoder-part": r"decoder|dec",
    "embedding-part": rf"{_SIDE}_(\w+_)?(embed\w*|emb)|(word_?|token_?)?embed(ding)?s?",
    "model-part": r"transformer|model",
    "positions-part": rf"{_SIDE}_?pos\w*|pos(itional)?_?(enc|emb)\w*",
    "generator-part": rf"generator|head|out_proj|proj(ection)?{_LAYER}|output_layer",
}


def constructor_role(name: str, *, may_be_layer: bool = False) -> str | None:
    """The role of a constructor argument by its name."""
    plain = name.lower().strip("_")
    if may_be_layer:
        for role, pattern in _LAYER_ROLES.items():
            if re.fullmatch(pattern, plain):
                return role
    if name == "N":
        return "depth"
    for role, pattern in _CONSTRUCTOR_ROLES.items():
        if re.fullmatch(pattern, plain):
            return role
    return None


# The roles of call arguments. The first pattern that fits decides.
_CALL_ROLES = {
    "return_state": r"(use|return|output|with)_?(cache|state|present|past|kv)\w*",
    "weights": r"(return|need|output|with|get)_?\w*(att\w*|weights?|scores?|maps?)",
    "average": r"average\w*",
    "causal": r"(?!causal_?ma?sk)\w*causal\w*|(is_|use_)?masked",
    "lengths": r"\w*(valid_?len\w*|lens|lengths?|valid)|len_\w+|\w+_len",
    "other": r"(additional|prepend|prefix|mem)_\w*mask|q(uery)?_?(pad\w*_?)?mask",
    "mask": r"\w*(mas[kc]|msk|masqu|padding|pad|allowed|attn_bias|visible|keep|attend|blocked"
    r"|ignore|missing)\w*",
    "state": r"(states?|caches?|past\w*|kv_?caches?|memory_state|layer_past|incremental\w*|present\w*"
    r"|prev\w*)",
    "dropout": r"drop\w*",
    "axis": r"dim|axis",
    "positions": r"(\w+_)?pos(itions?)?(_ids?|_emb\w*|_enc\w*)?|position_ids|token_positions",
    "value": r"v|vs|values?|v_?(in|input|x)|x_?v",
    "key": r"k|ks|keys?|k_?(in|input|x)|x_?k|kv",
    "memory": r"mem\w*|m|e_?out\w*|enc\w*|encoder\w*|context|ctx|annotations|source\w*|cross\w*|y|kv\w*",
    "query": r"q|qs|quer(y|ies)|q_?(in|input|x)|x_?q|hidden(_state)?|dec(oder)?_?(hidden|state)\w*|s|s_prev",
    "source": r"src\w*|source\w*|en_\w+|ques\w*",
    "target": r"tgt\w*|ans(wers?)?(_\w+)?|trg\w*|target\w*|dec\w*|decoder\w*|labels|targets",
    "x": r"x|inputs?|inp|emb\w*|hidden_states|tokens?|idx|ids|input_ids|seq\w*|features?|data|xs?"
    r"|images?|img|h|t|scores?|logits|attn\w*|e|z",
}


def call_role(name: str) -> str | None:
    """The role of a call argument by its name."""
    plain = name.lower().strip("_")
    for role, pattern in _CALL_ROLES.items():
        if re.fullmatch(pattern, plain):
            return role
    return None


def is_over_memory(name: str, others: Iterable[str]) -> bool:
    """Whether a mask argument masks the source, of an object that reads a source and a target."""
    plain = name.lower()
    if re.match("self", plain) and any(re.match("masked_?self", other.lower()) for other in others):
        return True
    if re.search(r"src|source|mem|enc|cross|key_padding", plain) and not re.search(
        r"tgt|trg|target|self", plain
    ):
        return True
    if re.search(r"tgt|trg|target|dec|self|look|causal|future|subsequent|attn_mask", plain):
        return False
    # If another mask is named after the target, this one is for the source.
    return any(re.search(r"tgt|trg|target|self|look|causal", other.lower()) for other in others)
