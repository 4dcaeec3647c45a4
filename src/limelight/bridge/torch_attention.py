"""torch.nn.MultiheadAttention: its projection matrices, and conversion from and to our module.

`torch.nn` stores the query, key and value projections in one `in_proj_weight` of shape (3D, D), one third
each: `in_proj_weight[1]` is a row of W_q, not W_k.
"""

from typing import Any

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn import MultiHeadAttention
from limelight.nn.tap import Role

PROJECTIONS = ("query", "key", "value", "output")


def projections(module: nn.MultiheadAttention | MultiHeadAttention) -> dict[str, Tensor]:
    """The matrices W_q, W_k, W_v and W_o by the names "query", "key", "value", "output"; x @ W.T projects x.

    They share memory with the module: clone them before you keep or change them.
    """
    if isinstance(module, MultiHeadAttention):
        weights = [getattr(module, name).weight for name in PROJECTIONS]
    elif not isinstance(module, nn.MultiheadAttention):
        allowed = "torch.nn.MultiheadAttention or limelight.nn.MultiHeadAttention"
        raise wrong("module", f"a {type(module).__name__}", allowed)
    elif module.in_proj_weight is None:  # keys or values of another width
        inputs = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        weights = [*inputs, module.out_proj.weight]
    else:
        weights = [*module.in_proj_weight.chunk(3), module.out_proj.weight]
    return {name: weight.detach() for name, weight in zip(PROJECTIONS, weights, strict=True)}


def attention_from_torch(theirs: nn.MultiheadAttention, role: Role = "self") -> MultiHeadAttention:
    """Our module with a copy of the weights of torch.nn's module."""
    if theirs.kdim != theirs.vdim:
        raise wrong("module", f"made with kdim={theirs.kdim}, vdim={theirs.vdim}", "one width for both")
    if theirs.bias_k is not None or theirs.add_zero_attn:
        raise wrong("module", "made with add_bias_kv or add_zero_attn", "neither of them")
    bias = theirs.in_proj_bias is not None
    ours = MultiHeadAttention(
        theirs.embed_dim,
        theirs.num_heads,
        memory_width=theirs.kdim,
        dropout=theirs.dropout,
        bias=bias,
        role=role,
    )
    _copy(theirs, ours.to(theirs.out_proj.weight))
    owners = _owners(theirs)
    for name, parameter in _owners(ours).items():
        parameter.requires_grad_(owners[name].requires_grad)
    return ours


def attention_to_torch(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch.nn's module with a copy of the weights of our module and `batch_first=True`."""
    theirs = nn.MultiheadAttention(
        ours.width,
        ours.heads,
        dropout=ours.dropout,
        bias=ours.output.bias is not None,
        kdim=ours.memory_width,
        vdim=ours.memory_width,
        batch_first=True,
    )
    _copy(ours, theirs.to(ours.output.weight))
    trainable = {name: parameter.requires_grad for name, parameter in _owners(ours).items()}
    for name, parameter in _owners(theirs).items():
        parameter.requires_grad_(trainable[name])
    if trainable != {name: parameter.requires_grad for name, parameter in _owners(theirs).items()}:
        raise wrong(
            "module",
            "frozen in part",
            "query, key and value frozen alike, because torch.nn stores them as one",
        )
    return theirs


def _owners(module: Any) -> dict[str, nn.Parameter]:
    """By "query.weight", "query.bias" and so on, the parameter that it is, or is a third of."""
    if isinstance(module, MultiHeadAttention):
        return {
            f"{name}.{kind}": p
            for name in PROJECTIONS
            for kind, p in getattr(module, name).named_parameters()
        }
    weights = [module.in_proj_weight] * 3
    if module.in_proj_weight is None:
        weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    weights.append(module.out_proj.weight)
    found = {f"{name}.weight": weight for name, weight in zip(PROJECTIONS, weights, strict=True)}
    if module.in_proj_bias is not None:
        biases = [*[module.in_proj_bias] * 3, module.out_proj.bias]
        found |= {f"{name}.bias": bias for name, bias in zip(PROJECTIONS, biases, strict=True)}
    return found


def _copy(source: Any, target: Any) -> None:
    for read in (projections, _biases):
        for name, view in read(target).items():  # a view: writing to it changes the parameter
            view.copy_(read(source)[name])


def _biases(module: Any) -> dict[str, Tensor]:
    if isinstance(module, MultiHeadAttention):
        biases = [getattr(module, name).bias for name in PROJECTIONS]
    elif module.in_proj_bias is not None:
        biases = [*module.in_proj_bias.chunk(3), module.out_proj.bias]
    else:
        biases = [None]
    if biases[0] is None:
        return {}
    return {name: bias.detach() for name, bias in zip(PROJECTIONS, biases, strict=True)}
