"""Imports of a checked file: modules of its repository, and placeholders for missing packages."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from torch import nn

# Packages for messages and progress bars: their functions do nothing, and return their first argument.
SILENT_PACKAGES = {"icecream", "loguru", "rich", "tqdm", "wandb"}
LEVELS = 6  # how many folders above the file are searched for modules


class MissingPackage(ImportError):
    """The checked code needs a package that is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} needs the package {name.partition('.')[0]}, which is not installed")


def search_folders(file: Path) -> list[Path]:
    """The folder of the file and those above it, up to the root of its repository, each with its `src`."""
    found: list[Path] = []
    for folder in list(file.parents)[:LEVELS]:
        if folder == Path.home() or folder == folder.parent:
            break
        found += [folder, *(path for path in [folder / "src"] if path.is_dir() and path not in found)]
        if (folder / ".git").exists():
            break
    return found


class LocalModules(MetaPathFinder):
    """Finds the modules of the repository of a checked file. The standard library comes first."""

    def __init__(self, folders: Sequence[Path], loader_of: Callable[[Path], Loader]) -> None:
        self.folders, self.loader_of = list(folders), loader_of

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module `name` in the folders, or in the folders of its package."""
        if path is None:
            folders = [] if name in sys.stdlib_module_names else self.folders
        else:
            folders = [Path(one) for one in path if self._is_local(Path(one))]
        for folder in folders:
            if (spec := self._spec(name, folder / name.rpartition(".")[2])) is not None:
                return spec
        return None

    def _is_local(self, path: Path) -> bool:
        return (
            any(path.is_relative_to(folder) for folder in self.folders) and "site-packages" not in path.parts
        )

    def _spec(self, name: str, path: Path) -> ModuleSpec | None:
        file = path.with_name(path.name + ".py")
        if (path / "__init__.py").is_file():
            return self._file_spec(name, path / "__init__.py", [str(path)])
        if file.is_file():
            return self._file_spec(name, file, None)
        if path.is_dir() and next(path.glob("**/*.py"), None) is not None:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(path)]
            return spec
        return None

    def _file_spec(self, name: str, file: Path, folders: list[str] | None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(
            name, file, loader=self.loader_of(file), submodule_search_locations=folders
        )


class MissingPackages(MetaPathFinder, Loader):
    """Gives placeholders for packages that the code imports and that are not installed."""

    def __init__(self) -> None:
        self.wanted: set[str] = set()  # the packages that may be replaced
        self.replaced: set[str] = set()
        self.is_loading = True  # while a file is loaded, placeholders can be called

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A placeholder; None if nobody asked for one."""
        top = name.partition(".")[0]
        if top not in self.wanted or (path is not None and top not in self.replaced):
            return None
        self.replaced.add(top)
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that has every attribute."""
        return _MissingModule(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is executed."""


class _MissingModule(ModuleType):
    is_placeholder = True

    def __init__(self, name: str, packages: MissingPackages) -> None:
        super().__init__(name)
        self._packages = packages

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        is_class = name[:1].isupper()
        value = _missing_class(full, name) if is_class else _MissingFunction(full, self._packages)
        setattr(self, name, value)
        return value


def _missing_class(full: str, name: str) -> type:
    """A class that can be a base class, an annotation or an object that is never used."""

    def fail(*_: Any, **__: Any) -> Any:
        raise MissingPackage(full)

    return type(name, (_MissingClass,), {"forward": fail, "__module__": full.rpartition(".")[0]})


class _MissingClass(nn.Module):
    is_placeholder = True

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def save_hyperparameters(self, *_: Any, **__: Any) -> None:
        """As in Lightning and d2l: the arguments of the constructor become attributes."""
        given = {name: value for name, value in sys._getframe(1).f_locals.items() if name != "self"}
        self.hparams = SimpleNamespace(**given)
        for name, value in given.items():
            if not name.startswith("_"):
                setattr(self, name, value)

    def log(self, *_: Any, **__: Any) -> None:
        """As in Lightning, but nothing is logged."""


class _MissingFunction:
    is_placeholder = True

    def __init__(self, name: str, packages: MissingPackages) -> None:
        self._name, self._packages = name, packages

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and not named and callable(arguments[0]):  # a decorator
            return arguments[0]
        if self._name.partition(".")[0] in SILENT_PACKAGES:
            return arguments[0] if arguments else None
        if not self._packages.is_loading:
            raise MissingPackage(self._name)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _MissingFunction(f"{self._name}.{name}", self._packages)

    def __getitem__(self, item: Any) -> Any:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_missing_class(self._name, self._name.rpartition(".")[2]),)
