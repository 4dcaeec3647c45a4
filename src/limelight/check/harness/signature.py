"""What the arguments of someone's call are for, and in which forms it may be tried."""

import inspect
import re
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from limelight.check.harness.argument_names import call_role, is_of_memory
from limelight.check.harness.inputs import ATTENTION, BARE, DECODERS, IMAGES, Case, Form, MaskArgument
from limelight.check.harness.mask_formats import Way

GUESS = "mask?"  # an argument of unknown name that need not be given: a mask, if it works as one
BEGIN = "begin"  # the first hidden state of a recurrent decoder
GUESSED = (*ATTENTION, "encoder-block", "encoder")


def forms(kind: str, *, has_source: bool, recurrent: bool) -> Iterator[Form]:
    """How its tensors may be shaped, the likeliest first."""
    if kind in IMAGES:
        yield Form("images")
    elif kind == "causal-mask":
        yield Form("size")
    elif kind in BARE and has_source:
        for heads, narrow in product((False, True), (True, False)):
            yield Form(heads_axis=heads, narrow_values=narrow)
        for query, late in product(("B1D", "BD", "1BD"), (False, True)):
            yield Form(query=query, time_first=late, narrow_values=False)
        yield Form(time_first=True)
    elif kind == "additive-attention":
        for query, late in product(("BTD", "B1D", "BD", "1BD"), (False, True)):
            yield Form(query=query, time_first=late)
    elif kind in ("encoder", "decoder", "sequence-model", "positional-encoding"):
        both = [("vectors", "vectors"), ("tokens", "vectors"), ("tokens", "tokens")]
        if kind == "sequence-model":
            both = [("tokens", "tokens"), ("vectors", "vectors")]
        for begin, (inputs, source) in product(("BD", "1BD", "LBD") if recurrent else ("BD",), both):
            yield Form(inputs, source=source, begin=begin)
        if kind == "sequence-model":
            yield Form("tokens", source="tokens", time_first=True)
    else:
        yield Form()


def roles_of_call(parameters: list[inspect.Parameter], kind: str) -> dict[str, str | None]:
    """What each argument of a call is for, seen together."""
    names = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    required = {p.name for p in parameters if p.default is p.empty}
    roles: dict[str, str | None] = {name: call_role(name) for name in names}
    if "kv" in roles and "kv" not in required and kind not in ATTENTION:
        roles["kv"] = "state"  # of what came before
    if kind in ("encoder-block", "encoder"):
        roles |= {
            name: "x"
            for name, role in roles.items()
            if role in ("source", "memory", "key", "value", "query", "target")
        }
    elif kind in (*DECODERS, "sequence-model"):
        if roles.get("y") == "memory" and list(roles.values()).count("memory") > 1:
            roles["y"] = "x"  # beside a memory, y is the target
        roles |= {name: "source" for name, role in roles.items() if role in ("memory", "key", "value")}
        if kind in DECODERS and {"x", "target"} & {role for role in roles.values() if role}:
            roles |= {name: BEGIN for name, role in roles.items() if role == "query"}
        asked = [name for name, role in roles.items() if role == "target" and name in required]
        if kind == "sequence-model" and asked and "source" not in roles.values():
            roles |= {name: "source" for name, role in roles.items() if role == "x" and name in required}
        if kind == "sequence-model" and "target" not in roles.values():
            roles |= {name: "x" for name, role in roles.items() if role in ("source", "query")}
    elif kind in ATTENTION:
        _of_attention(roles, required)
    _keep_first(roles, required)
    unknown = [name for name in names if roles[name] is None and name in required]
    order = {
        "decoder-block": ["x", "source"],
        "decoder": ["x", "source"],
        "sequence-model": ["x"],
        "masked-softmax": ["x", "lengths"],
    }.get(kind, ["query", "key", "value"] if kind in ATTENTION else ["x"])
    missing = [role for role in order if role not in roles.values()]
    for name, role in zip(unknown, missing, strict=False):
        roles[name] = role
    # The targets of a language model are for its loss.
    if kind == "sequence-model" and "x" in roles.values():
        roles |= {name: None for name, role in roles.items() if role == "target" and name not in required}
    if kind in GUESSED and not {"mask", "lengths"} & set(map(str, roles.values())):
        optional = [p.name for p in parameters if p.default is None and roles.get(p.name) is None]
        roles |= dict.fromkeys(optional[:1], GUESS)
    first_mask = kind == "masked-softmax" and not {"mask", "lengths"} & {r for r in roles.values() if r}
    if first_mask and len(names) > 1:
        roles[names[1]] = "lengths"
    return roles


def _of_attention(roles: dict[str, str | None], required: set[str]) -> None:
    """Queries and what they look at. Step by step, the query is the state of a decoder."""
    asking = [n for n, role in roles.items() if role == "target" or (role == "state" and n in required)]
    roles |= dict.fromkeys(asking, "query")
    roles |= {name: "memory" for name, role in roles.items() if role == "source"}
    if "query" in roles.values() and not {"key", "memory", "value"} & {r for r in roles.values() if r}:
        roles |= {name: "memory" for name, role in roles.items() if role == "x" and name in required}


def _keep_first(roles: dict[str, str | None], required: set[str]) -> None:
    """A second argument for the same thing that need not be given is something else."""
    same = {"key": "source", "memory": "source", "query": "x", "target": "x"}
    taken: set[str] = set()
    for name, role in roles.items():
        if role in ("query", "key", "value", "memory", "source", "target", "x"):
            thing = same.get(role, role)
            if thing in taken and name not in required:
                roles[name] = None
            taken.add(thing)


def mask_arguments(
    kind: str, roles: dict[str, str | None], required: set[str], *, has_source: bool
) -> list[MaskArgument]:
    """The arguments that say who may attend to whom."""
    names = [name for name, role in roles.items() if role in ("mask", "lengths", GUESS)]
    two = kind in (*DECODERS, "sequence-model") and has_source
    found = []
    for name in names:
        # A mask for something that is not given has nothing to hide.
        about = re.sub(r"_?(key_padding_)?(mask|lens|lengths?)$", "", name)
        if about in roles and roles[about] is None:
            continue
        of_memory = two and is_of_memory(name, [other for other in names if other != name])
        role = "mask" if roles[name] == GUESS else str(roles[name])
        found.append(MaskArgument(name, role, of_memory, guessed=roles[name] == GUESS))
    _join(found)
    if kind in DECODERS and "state" in roles.values() and not any(m.of_memory for m in found):
        name = next(name for name, role in roles.items() if role == "state")
        if name in required and not {"memory", "source", "key"} & {r for r in roles.values() if r}:
            found.append(MaskArgument(name, "state", True, Way("lengths", "B")))
    return found


def _join(masks: list[MaskArgument]) -> None:
    """Padding of a source that is said twice, for the encoder and for the decoder, is said at once."""
    twice = [mask for mask in masks if mask.of_memory and "pad" in mask.name]
    for mask in twice[1:]:
        twice[0].along.append(mask.name)
        masks.remove(mask)


def everything(kind: str, case: Case, mask: MaskArgument) -> Tensor:
    """-> (B, T, S), nothing hidden"""
    keys = case.keys if mask.of_memory or kind in ATTENTION else case.x.shape[1]
    if kind == "masked-softmax":
        keys = case.x.shape[2]
    return torch.ones(len(case.x), case.x.shape[1], keys, dtype=torch.bool)
