"""The commands that describe settings. Imports late, so that `--help` does not wait for torch."""

from limelight.cli.options import Data, Json, Settings


def settings(section: str = "", *, as_json: Json = False) -> None:
    """List all settings: keys, defaults, allowed values and meanings.

    Example: limelight settings train

    Example: limelight settings model.vit

    Parameters
    ----------
    section
        Only these settings: train, task, model, one kind of them, such as model.vit or task.data.table, or
        the settings of this name, such as heads. By default all.
    as_json
        Print one JSON document.
    """
    from dataclasses import replace

    from limelight.errors import unknown
    from limelight.experiment.config import sections_of
    from limelight.settings import path_of
    from limelight.terminal import show_settings

    found = sections_of()
    chosen = [one for one in found if f"{path_of(one)}.".startswith(f"{section}." if section else "")]
    if not chosen:
        named = [(one, [s for s in one.settings if section in (s.key, s.name)]) for one in found]
        chosen = [replace(one, settings=tuple(settings)) for one, settings in named if settings]
    if not chosen:
        known = {path_of(one) for one in found} | {one.name for one in found}
        raise unknown("section", section, known - {""})
    show_settings(chosen, as_json=as_json)


def init(recipe: str, *, settings: Settings = (), data: Data = None) -> None:
    """Print a recipe as a commented TOML file to edit.

    Example: limelight init reverse > mine.toml

    Parameters
    ----------
    recipe
        Name of a recipe (see `limelight recipes`), your own TOML file, a plug-in (.py file), or a run folder.
    """
    from limelight.experiment.config import experiment, setting
    from limelight.experiment.template import commented_toml

    print(commented_toml(experiment(recipe, dict(map(setting, settings)), data)), end="")
