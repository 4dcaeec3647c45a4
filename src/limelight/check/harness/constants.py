"""Sizes that the checked code reads from constants of its modules, such as `n_embd = 384`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.argument_values import value_of_role
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import Kind
from limelight.check.used_names import used_globals

# The roles that are fields of Sizes.
FIELDS = ("heads", "depth", "hidden", "vocabulary", "longest", "patch", "channels", "classes", "width")


def size_constants(target: Any) -> dict[tuple[str, str], str]:
    """The constants that are sizes or dropout rates, by module and name, with their roles."""
    found = {}
    for (module, name), value in used_globals(target).items():
        if str(value).startswith("cuda") and isinstance(value, (str, torch.device)):
            found[module, name] = "device"
            continue
        role = constructor_role(name) if type(value) in (int, float) else None
        if role is not None and isinstance(value, float) == (role == "dropout"):
            found[module, name] = role
    return found


def sizes_of_constants(target: Any, sizes: Sizes) -> Sizes:
    """The sizes that the constants of the file give."""
    changes: dict[str, int] = {}
    for (module, name), role in size_constants(target).items():
        value = vars(sys.modules[module])[name]
        if role in FIELDS:
            changes.setdefault(role, value)
        if role == "image":
            changes.setdefault("image", (value, value))  # type: ignore[arg-type]
    return sizes.replace(**changes)


@contextmanager
def replaced_constants(target: Any, kind: Kind, sizes: Sizes) -> Iterator[list[str]]:
    """Inside this context, the constants have our sizes; gives their names."""
    before = {}
    try:
        for (module, name), role in size_constants(target).items():
            value = {"image": sizes.image[0], "patch": sizes.patch}.get(role) or value_of_role(
                role, kind, sizes
            )
            if value is not None:
                names = vars(sys.modules[module])
                before[module, name] = names[name]
                names[name] = value
        yield [name for _, name in before]
    finally:
        for (module, name), value in before.items():
            vars(sys.modules[module])[name] = value
