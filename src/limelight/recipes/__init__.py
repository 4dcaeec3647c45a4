"""The built-in recipes: one TOML file each. This module does not import torch."""

import tomllib
from importlib.resources import files


def recipes() -> dict[str, str]:
    """The name and a one-line description of each recipe."""
    paths = [path.name for path in files(__name__).iterdir() if path.name.endswith(".toml")]
    names = sorted(path.removesuffix(".toml") for path in paths)
    return {name: tomllib.loads(recipe_text(name))["about"] for name in names}


def recipe_text(name: str) -> str:
    """The TOML file of a recipe."""
    return files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
