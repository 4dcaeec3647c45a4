"""The base class of all configs, and error messages that name the full key."""

import re
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from limelight.errors import WrongInput, wrong
from limelight.settings import resolve, sections, suggest_key

MAX_SHOWN = 40  # characters of a value in a message
# Messages of pydantic that do not fit after "allowed:".
MESSAGES = {
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid string": "a string",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table such as { encoder = 0.1 }",
    "a valid list": 'a list such as ["encoder"]',
    "a valid dictionary or object to extract fields from": "settings with keys of their own",
}


class Config(BaseModel):
    """Base class of configs: frozen and strict. Unknown keys, wrong types and wrong values are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


C = TypeVar("C", bound=Config)


def read(config: type[C], values: dict[str, Any]) -> C:
    """Validate a dictionary; the error message names the first invalid key in full."""
    try:
        return config.model_validate(values)
    except ValidationError as error:
        raise _first_wrong(config, values, error.errors()[0]) from None


def read_json(config: type[C], text: str, place: str) -> C:
    """Validate a JSON text; the error message begins with `place`, e.g. the path of the file."""
    try:
        return config.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise WrongInput(f"{place}: {key + ': ' if key else ''}{first['msg']}") from None


def flatten(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings with dotted keys: {"train": {"rate": 0.1}} -> {"train.rate": 0.1}"""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        inside = isinstance(value, dict) and value
        flat |= flatten(value, f"{above}{key}.") if inside else {above + key: value}
    return flat


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The keys in which two flat dictionaries differ, each as "KEY was OLD, is NEW"."""
    keys = [key for key in before | now if before.get(key) != now.get(key)]
    return [f"{key} was {_short(before.get(key))}, is {_short(now.get(key))}" for key in keys]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _first_wrong(config: type[Config], values: dict[str, Any], error: ErrorDetails) -> WrongInput:
    # For a union, pydantic adds the chosen tag to the path; only keys that exist in `values` are the user's.
    keys: list[str] = []
    place: Any = values
    for part in error["loc"]:
        if isinstance(place, dict) and part in place:
            keys.append(str(part))
            place = place[part]
    key = ".".join(keys)
    what = error["type"]
    if what == "extra_forbidden":
        known = [".".join([*keys[:-1], name]) for name in _keys_beside(config, error["loc"])]
        return _unknown_key(config, key, known, values)
    if what == "missing":
        return WrongInput(f"{'.'.join([*keys, str(error['loc'][-1])])} is missing; it is required")
    if what in ("union_tag_invalid", "union_tag_not_found"):
        context = error.get("ctx", {})
        given = repr(context["tag"]) if "tag" in context else "missing"
        tags = context.get("expected_tags", "one of the kinds in the recipes")
        return wrong(f"{key}.kind", given, str(tags))
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    message = MESSAGES.get(message, message)
    if what == "value_error":  # from a validator of our own, with a message of its own
        if not key:
            return WrongInput(message)
        if re.match(r"[a-z_]+ is ", message):  # about one of its keys
            return WrongInput(f"{key}.{message}")
        return WrongInput(f"{key} {message}" if message.startswith("is ") else f"{key}: {message}")
    return wrong(key or "the experiment", repr(error["input"]), message)


def _unknown_key(config: type[Config], key: str, beside: list[str], values: dict[str, Any]) -> WrongInput:
    """The exception for an unknown key. It suggests one of all keys that these values could have."""
    allowed = ", ".join(sorted(beside))
    near = suggest_key(key, all_keys(config, values))
    guess = f"did you mean {near!r}? " if near else ""
    return WrongInput(f"key {key!r} is unknown; {guess}allowed: {allowed}")


def all_keys(config: type[Config], values: dict[str, Any]) -> list[str]:
    """The dotted keys of all settings and of all groups of settings that these values could have."""
    found = sections(schema_of(config), values)
    groups = [section.name for section in found if section.name]
    return [setting.key for section in found for setting in section.settings] + groups


def _keys_beside(config: type[Config], path: tuple[int | str, ...]) -> list[str]:
    """The valid keys at the place where the last part of `path` was given."""
    schema = schema_of(config)
    place = schema
    for part in path[:-1]:
        place = resolve(schema, place)
        options = place.get("discriminator", {}).get("mapping", {})
        below = place.get("properties", {}).get(str(part), {})
        place = {"$ref": options[part]} if part in options else below
    return list(resolve(schema, place).get("properties", {}))


@cache
def schema_of(config: type[Config]) -> dict[str, Any]:
    """The JSON schema of a config class."""
    return config.model_json_schema()
