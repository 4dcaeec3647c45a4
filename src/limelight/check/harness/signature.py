"""The roles of the arguments of a call, and the forms in which the call may be tried."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from limelight.check.harness.argument_names import call_role, is_over_memory
from limelight.check.harness.inputs import Case, Form, MaskArgument
from limelight.check.harness.mask_formats import MaskFormat
from limelight.check.kinds import Kind

Roles = dict[str, str | None]

MAYBE_MASK = "mask?"  # an optional argument of unknown name: a mask, if it works as one
FIRST_STATE = "first state"  # the first hidden state of a recurrent decoder
SEQUENCES = ("query", "key", "value", "memory", "source", "target", "x")


def forms(kind: Kind, *, has_source: bool, is_recurrent: bool, has_positions: bool) -> Iterator[Form]:
    """The possible shapes of its tensors, the most likely first."""
    if has_positions:
        usual = list(forms(kind, has_source=has_source, is_recurrent=is_recurrent, has_positions=False))
        for positions, form in product(("ids", "vectors"), usual):
            yield replace(form, positions=positions)
    elif kind.reads_images:
        yield Form("images")
    elif kind.reads_size:
        yield Form("size")
    elif kind.is_bare and has_source:
        for heads_axis, narrow in product((False, True), (True, False)):
            yield Form(heads_axis=heads_axis, narrow_values=narrow)
        for query, time_first in product(("B1D", "BD", "1BD"), (False, True)):
            yield Form(query=query, time_first=time_first, narrow_values=False)
        yield Form(time_first=True)
        for narrow in (True, False):
            yield Form(batched=False, narrow_values=narrow)
    elif kind.is_additive:
        for query, time_first in product(("BTD", "B1D", "BD", "1BD"), (False, True)):
            yield Form(query=query, time_first=time_first)
    elif "tokens" in kind.inputs:
        pairs = [("vectors", "vectors"), ("tokens", "vectors"), ("tokens", "tokens")]
        if kind.reads_tokens:
            pairs = [("tokens", "tokens"), ("vectors", "vectors")]
        first_states = ("BD", "1BD", "LBD") if is_recurrent else ("BD",)
        for first_state, (inputs, source) in product(first_states, pairs):
            yield Form(inputs, source=source, first_state=first_state)
        if kind.reads_tokens:
            yield Form("tokens", source="tokens", time_first=True)
        elif kind.is_decoder:
            yield Form(time_first=True)
    else:
        yield Form()
        yield Form(time_first=True)
        yield Form(batched=False)


def call_roles(parameters: list[inspect.Parameter], kind: Kind) -> Roles:
    """The role of each argument of a call, by its name and the names of the others."""
    names = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    required = {p.name for p in parameters if p.default is p.empty}
    roles: Roles = {name: call_role(name) for name in names}
    numbers = [p.name for p in parameters if isinstance(p.default, (int, float, str))]
    roles |= {
        name: None for name in numbers if roles.get(name) in (*SEQUENCES, "positions", "lengths", "mask")
    }
    if "kv" in roles and "kv" not in required and not kind.is_attention:
        roles["kv"] = "state"  # the keys and values of earlier positions
    if kind.is_encoder:
        _rename(roles, ("source", "memory", "key", "value", "query", "target"), "x")
    elif kind.may_have_memory:
        _find_target_and_source(roles, required, kind)
    elif kind.is_attention:
        _find_query_and_memory(roles, required)
    _keep_first(roles, required)
    unknown = [name for name in names if roles[name] is None and name in required]
    missing = [role for role in kind.arguments if role not in roles.values()]
    for name, role in zip(unknown, missing, strict=False):
        roles[name] = role
    # The targets of a language model are for its loss.
    if kind.reads_tokens and "x" in roles.values():
        _rename(roles, ("target",), None, among=set(roles) - required)
    has_mask = bool({"mask", "lengths"} & set(map(str, roles.values())))
    if (kind.is_attention or kind.is_encoder) and not has_mask:
        optional = [p.name for p in parameters if p.default is None and roles.get(p.name) is None]
        roles |= dict.fromkeys(optional[:1], MAYBE_MASK)
    if kind.reads_scores and not has_mask and len(names) > 1 and roles[names[1]] is None:
        roles[names[1]] = "lengths"
    return roles


def _rename(roles: Roles, old: tuple[str, ...], new: str | None, among: set[str] | None = None) -> None:
    for name, role in roles.items():
        if role in old and (among is None or name in among):
            roles[name] = new


def _find_target_and_source(roles: Roles, required: set[str], kind: Kind) -> None:
    """The arguments of a decoder or a whole model."""
    if (
        kind.reads_tokens
        and {"x", "y"} <= required
        and "memory" not in [r for n, r in roles.items() if n != "y"]
    ):
        roles |= {"x": "source", "y": "target"}
    if roles.get("y") == "memory" and list(roles.values()).count("memory") > 1:
        roles["y"] = "x"  # beside a memory, y is the target
    _rename(roles, ("memory", "key", "value"), "source")
    if kind.is_decoder and {"x", "target"} & set(roles.values()):
        states = {name for name in roles if not name.lower().startswith("q")}
        _rename(roles, ("query",), FIRST_STATE, among=states)
        _rename(roles, ("query",), "source")
    if not kind.reads_tokens:
        return
    targets = [name for name, role in roles.items() if role == "target" and name in required]
    if targets and "source" not in roles.values():
        _rename(roles, ("x",), "source", among=required)
    if "target" not in roles.values():
        _rename(roles, ("source", "query"), "x")


def _find_query_and_memory(roles: Roles, required: set[str]) -> None:
    """The arguments of an attention. If it is called step by step, the state of a decoder is the query."""
    if "x" in roles and roles.get("hidden") == "query":
        roles["hidden"] = "mask"  # the keys that are hidden
    states = [name for name, role in roles.items() if role == "state" and name in required]
    queries = [name for name, role in roles.items() if role == "target"]
    queries += [name for name in states if not is_cache(name)]
    roles |= dict.fromkeys(queries, "query")
    _rename(roles, ("source",), "memory")
    if "query" in roles.values() and not {"key", "memory", "value"} & set(roles.values()):
        _rename(roles, ("x",), "memory", among=required)


def is_cache(name: str) -> bool:
    """Whether a state contains keys and values of earlier positions. A call without it starts a sequence."""
    return bool(re.search("cache|past|kv|present", name.lower()))


def _keep_first(roles: Roles, required: set[str]) -> None:
    """An optional second argument of the same role is something else."""
    same = {"key": "source", "memory": "source", "query": "x", "target": "x"}
    taken: set[str] = set()
    for name, role in roles.items():
        if role in SEQUENCES:
            group = same.get(role, role)
            if group in taken and name not in required:
                roles[name] = None
            taken.add(group)


def mask_arguments(kind: Kind, roles: Roles, required: set[str], *, has_source: bool) -> list[MaskArgument]:
    """The arguments that restrict which keys a query may attend to."""
    names = [name for name, role in roles.items() if role in ("mask", "lengths", MAYBE_MASK)]
    has_memory = kind.may_have_memory and has_source
    found = []
    for name in names:
        # A mask for an argument that is not given has nothing to hide.
        masked = re.sub(r"_?(key_padding_)?(mask|lens|lengths?)$", "", name)
        if masked in roles and roles[masked] is None:
            continue
        over_memory = has_memory and is_over_memory(name, [other for other in names if other != name])
        is_guess = roles[name] == MAYBE_MASK
        found.append(
            MaskArgument(name, "mask" if is_guess else str(roles[name]), over_memory, guessed=is_guess)
        )
    _join_duplicates(found)
    if kind.is_decoder and "state" in roles.values() and not any(mask.over_memory for mask in found):
        name = next(name for name, role in roles.items() if role == "state")
        if name in required and not {"memory", "source", "key"} & set(roles.values()):
            found.append(MaskArgument(name, "state", True, MaskFormat("lengths", "B")))
    return found


def _join_duplicates(masks: list[MaskArgument]) -> None:
    """A padding mask of the source may be given twice, for the encoder and for the decoder: join the two."""
    of_source = [mask for mask in masks if mask.over_memory]
    same = [mask for mask in of_source if re.search("pad|attn|cross", mask.name)]
    if any(re.search("kv", mask.name) for mask in of_source):
        same = of_source
    for mask in same[1:]:
        same[0].duplicates.append(mask.name)
        masks.remove(mask)


def all_allowed(kind: Kind, case: Case, mask: MaskArgument) -> Tensor:
    """-> (B, T, S), all True: nothing is hidden"""
    keys = case.keys if mask.over_memory or kind.is_attention else case.x.shape[1]
    if kind.reads_scores:
        keys = case.x.shape[2]
    return torch.ones(len(case.x), case.x.shape[1], keys, dtype=torch.bool)
