"""An experiment as a TOML file to edit: every setting with its meaning and the allowed values."""

import json
from textwrap import wrap
from typing import Any

import tomli_w

from limelight.experiment.config import Experiment, sections_of
from limelight.settings import Section, Setting

HEADER = """\
# A recipe to edit. To train it: limelight train FILE.toml --out runs/MINE
# Settings that begin with # have their default value; remove the # to change them.
"""
WIDTH = 98
HIDDEN = (
    "plugin",
    "plugin_digest",
    "start",
    "start_digest",
    "imported",
)  # without a value, they are of no use


def commented_toml(experiment: Experiment) -> str:
    """The experiment as TOML with comments; settings with their default values are commented out."""
    found = (section for section in sections_of(experiment) if section.settings)
    return "\n".join([HEADER, *map(_section, found)])


def _section(section: Section) -> str:
    lines = [f"[{section.name}]"] * bool(section.name)
    if section.name:
        lines += _comment(section.meaning)
    for setting in section.settings:
        if setting.key not in HIDDEN or setting.value:
            lines += ["", *_comment(f"{setting.meaning} ({setting.allowed})"), _assignment(setting)]
    return "\n".join(lines).strip("\n") + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, WIDTH)]


def _assignment(setting: Setting) -> str:
    """`heads = 4`, or `#heads = 1` for a default; a setting without a value is `#heads =`."""
    changed = setting.value != setting.default or setting.name == "kind"
    return f"{'' if changed else '#'}{setting.name} = {_toml(setting.value)}".rstrip()


def _toml(value: Any) -> str:
    if isinstance(value, dict):  # in one line, as there are no sections below this one
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(one)}' for key, one in value.items())}}}"
    return "" if value is None else tomli_w.dumps({"value": value}).partition("=")[2].strip()
