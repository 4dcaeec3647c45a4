"""The names that classes and functions of the checked code read, and what is found under them."""

import dis
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

LIBRARIES = {"torch", "numpy", "limelight", "einops", "builtins"}


def used_names(thing: Any) -> Iterator[str]:
    """The global names that a class or function reads, and the names of its base classes."""
    parts = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
    codes = [inspect.unwrap(part).__code__ for part in parts if inspect.isfunction(part)]
    while codes:
        code = codes.pop()
        yield from (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    if isinstance(thing, type):
        yield from (base.__name__ for base in thing.__bases__)


def dependencies(thing: Any, namespace: dict[str, Any]) -> list[str]:
    """The names of all objects of the same file that a class or function uses, directly or indirectly."""
    found: dict[str, None] = {}
    pending = [thing]
    while pending:
        for name in used_names(pending.pop()):
            other = namespace.get(name)
            is_own = getattr(other, "__module__", None) == thing.__module__
            if is_own and other is not thing and name not in found:
                found[name] = None
                pending.append(other)
    return list(found)


def used_globals(thing: Any) -> dict[tuple[str, str], Any]:
    """The values of all global names that it uses, directly or indirectly, by module and name."""
    found: dict[tuple[str, str], Any] = {}
    seen, pending = {id(thing)}, [thing]
    while pending:
        user = pending.pop()
        module = sys.modules.get(getattr(user, "__module__", ""))
        if module is None or module.__name__.partition(".")[0] in LIBRARIES:
            continue
        for name in used_names(user):
            value = vars(module).get(name)
            found[module.__name__, name] = value
            is_code = inspect.isclass(value) or inspect.isfunction(value)
            if is_code and not isinstance(value, ModuleType) and id(value) not in seen:
                seen.add(id(value))
                pending.append(value)
    return found
