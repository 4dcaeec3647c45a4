"""Loads a checked file: its definitions are executed, with the modules that they import, and nothing else."""

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from dataclasses import dataclass, field
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.argument_values import value_of_role
from limelight.check.harness.sizes import SIZES
from limelight.check.isolation.definitions import (
    assigned_names,
    factories,
    future_flags,
    imported_names,
    is_definition,
    is_silent,
    relative_level,
    undefined_names,
)
from limelight.check.isolation.imports import LocalModules, MissingPackages, search_folders
from limelight.check.isolation.sources import Source, read_source
from limelight.check.kinds import KINDS
from limelight.check.report import Finding, Report
from limelight.check.used_names import used_names

ALONE = "submission"  # the name of a module that is in no package


@dataclass
class Submission:
    """The module of a checked file, and what was noticed while it was loaded."""

    module: ModuleType
    source: Source
    troubles: list[str] = field(default_factory=list)  # definitions that failed
    notes: list[str] = field(default_factory=list)  # what was left out or replaced

    @property
    def names(self) -> dict[str, Any]:
        """All objects of the module by name, imported ones, too."""
        return {name: thing for name, thing in vars(self.module).items() if not name.startswith("__")}

    @property
    def own(self) -> list[str]:
        """The names of the classes and functions that the file defines."""
        things = {
            name: thing
            for name, thing in self.names.items()
            if inspect.isclass(thing) or inspect.isfunction(thing)
        }
        return [name for name, thing in things.items() if thing.__module__ == self.module.__name__]

    def located(self, report: Report) -> Report:
        """The report and its findings with the cell of the notebook, and the line in that cell."""
        findings = tuple(self._located_finding(finding) for finding in report.findings)
        cell, line = self.source.place(report.line) if report.line else (0, 0)
        return report.model_copy(update={"cell": cell, "line": line, "findings": findings})

    def _located_finding(self, finding: Finding) -> Finding:
        if not finding.line or finding.file:  # only Python files are imported by others
            return finding
        cell, line = self.source.place(finding.line)
        return finding.model_copy(update={"cell": cell, "line": line})


def load(file: Path) -> Submission:
    """Execute the definitions of a file; ValueError if it cannot be read."""
    packages = MissingPackages()
    sys.meta_path.append(packages)
    loader = _Definitions(packages, file)
    name = _module_name(file, loader.statements)
    package = name.rpartition(".")[0]
    folders = [file.parents[name.count(".")], *search_folders(file)] if package else search_folders(file)
    sys.meta_path.insert(0, LocalModules(folders, partial(_Definitions, packages)))
    if package:
        importlib.import_module(package)
    if name in sys.modules:  # its package imports it
        loader = cast(_Definitions, cast(ModuleSpec, sys.modules[name].__spec__).loader)
    else:
        spec = ModuleSpec(name, loader, origin=str(file))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loader.exec_module(module)
    packages.is_loading = False
    shadows = [path.name for path in sorted(file.parent.glob("*.py")) if path.stem in sys.stdlib_module_names]
    return _submission(sys.modules[name], loader, [name for name in shadows if name != file.name])


def _module_name(file: Path, statements: list[ast.stmt]) -> str:
    """The dotted name of a file in a package; relative imports need one even without __init__.py."""
    levels = relative_level(statements)
    folders = list(file.parents)
    while (folders[levels] / "__init__.py").is_file():
        levels += 1
    if not levels:
        return ALONE
    return ".".join([folder.name for folder in reversed(folders[:levels])] + [file.stem])


# Imports that are added if they are missing, so that the rest can be checked.
FORGOTTEN_IMPORTS = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "from torch.nn import functional as F",
    "math": "import math",
    "np": "import numpy as np",
}


class _Definitions(Loader):
    """Executes the definitions of a file one by one; those that fail are left out."""

    def __init__(self, packages: MissingPackages, file: Path) -> None:
        self.packages = packages
        self.source = read_source(file)
        self.statements = self.source.statements()
        self.skipped: list[ast.stmt] = []
        self.failed: list[tuple[ast.stmt, BaseException]] = []
        self.undefined = undefined_names(self.statements)
        self.forgotten = [name for name in FORGOTTEN_IMPORTS if name in self.undefined]

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute all definitions in the namespace of the module."""
        module.__file__ = str(self.source.file)
        self.source.show_to_inspect()
        needed, optional = imported_names(self.statements)
        self.packages.wanted |= needed - optional
        for name in self.forgotten:
            exec(FORGOTTEN_IMPORTS[name], vars(module))
        cheap = factories(self.statements)
        flags = future_flags(self.statements)  # each statement is compiled for itself
        for statement in self.statements:
            if not is_definition(statement, cheap):
                self.skipped.append(statement)
                continue
            for part in _imports_one_by_one(statement):
                try:
                    code = compile(ast.Module([part], []), str(self.source.file), "exec", flags)
                    exec(code, vars(module))
                except (Exception, SystemExit) as error:
                    self.failed.append((part, error))

    def get_source(self, name: str) -> str:
        """For `inspect`."""
        return "\n".join(self.source.cells)


def _imports_one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """An import of several names as several imports, so that one that fails does not affect the others."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return [statement]
    parts: list[ast.stmt] = []
    for alias in statement.names:
        part = ast.copy_location(type(statement)(**dict(ast.iter_fields(statement))), statement)
        part.names = [alias]
        parts.append(part)
    return parts


def _submission(module: ModuleType, loader: _Definitions, shadows: list[str]) -> Submission:
    found = Submission(module, loader.source, list(loader.source.errors))
    for statement, error in loader.failed:
        where = loader.source.where(statement.lineno)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            found.troubles.append(f"{where}: {statement.name} cannot be defined: {reason}")
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            found.notes.append(f"{where}: {reason}")
    for name in loader.forgotten:
        added = f"{FORGOTTEN_IMPORTS[name]} was added to check the rest"
        found.troubles.append(f"NameError: name {name!r} is not defined; {added}")
    found.notes = list(dict.fromkeys(found.notes))
    missed = [statement for statement in loader.skipped if not is_silent(statement)]
    if missed and not loader.source.is_notebook:
        first = f"line {missed[0].lineno} is the first statement that was left out"
        found.notes.append(f"only imports, functions, classes and constants were executed; {first}")
    found.notes += [f"{name} is ignored: the standard library has a module of this name" for name in shadows]
    if loader.packages.replaced:
        names = ", ".join(sorted(loader.packages.replaced))
        found.notes.append(f"not installed: {names}; only parts that do not need them can be checked")
    not_executed = [*loader.skipped, *(statement for statement, _ in loader.failed)]
    _fill_in_constants(found, assigned_names(not_executed), "is computed from data")
    _fill_in_constants(found, loader.undefined, "is not defined")
    return found


def _fill_in_constants(found: Submission, names: set[str], why: str) -> None:
    """Sizes that have no value, because the file computes them from data, get usual ones."""
    needed = {name for own in found.own for name in used_names(found.names[own])}
    for name in sorted(names & needed - set(found.names)):
        if re.match("[A-Z][a-z]", name):  # the name of a class
            continue
        value = value_of_role(constructor_role(name), KINDS["sequence-model"], SIZES)
        if value is not None:
            setattr(found.module, name, value)
            found.notes.append(f"{name} {why}: {value} was used")
