"""Write docs/settings.md: all settings, from the config classes. Run it after a change of settings."""

from pathlib import Path

from limelight.experiment.config import sections_of
from limelight.settings import REQUIRED, Section, path_of
from limelight.terminal import show_value

PAGE = Path(__file__).with_suffix(".md")
HEADER = """\
# Settings

All settings of recipes, with their defaults. `limelight explain RECIPE --settings` lists those of one recipe
with its values, `limelight settings model.vit` those of one section, and `limelight init RECIPE > mine.toml`
writes a file to edit. Change a setting for one run with `--set KEY=VALUE`, for example `--set model.heads=2`.

This page is written by `python docs/settings.py`.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join([HEADER, *map(_section, (one for one in sections_of() if one.settings))])


def _section(section: Section) -> str:
    lines = [f"## {path_of(section) or 'experiment'}", "", section.meaning, ""][
        : None if section.meaning else 2
    ]
    lines += ["| setting | default | allowed | meaning |", "|---|---|---|---|"]
    for one in section.settings:
        default = REQUIRED if one.default == REQUIRED else f"`{show_value(one.default)}`"
        cells = (f"`{one.key}`", default, one.allowed, one.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
