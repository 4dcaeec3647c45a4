"""A notebook as a module: the definitions in its cells are executed, and nothing else."""

import ast
import json
import linecache
import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import ModuleType

NOTEBOOK = ".ipynb"
# Functions that the value of a constant may call: they are fast, and later definitions may need the value.
CHEAP = {"device", "is_available", "namedtuple", "TypeVar", "NewType", "dict", "list", "tuple", "set"}
CHEAP |= {"int", "float", "sqrt", "log", "min", "max", "len", "range", "partial", "dataclass", "field"}


@dataclass
class Notebook:
    """The code cells of a notebook; `troubles` lists cells and definitions with errors."""

    file: Path
    cells: list[str]
    troubles: list[str] = field(default_factory=list)

    def cell_of(self, line: int) -> tuple[int, int]:
        """The cell, and the line in that cell, of a line of all cells together."""
        starts = [0, *accumulate(cell.count("\n") + 1 for cell in self.cells)]
        cell = bisect_right(starts, line - 1)
        return cell, line - starts[cell - 1]

    def module(self, name: str) -> ModuleType:
        """A module with all definitions, executed in their order."""
        module = ModuleType(name)
        module.__file__ = str(self.file)
        sys.modules[name] = module
        text = "\n".join(self.cells)
        # `inspect` looks here for the source code of a function or a class.
        linecache.cache[str(self.file)] = (len(text), None, text.splitlines(keepends=True), str(self.file))
        line = 0
        for number, cell in enumerate(self.cells, 1):
            try:
                statements = ast.parse(cell).body
            except SyntaxError as error:
                self.troubles.append(f"cell {number}, line {error.lineno}: SyntaxError: {error.msg}")
                statements = []
            for statement in filter(is_definition, statements):
                ast.increment_lineno(statement, line)
                self._execute(statement, module)
            line += cell.count("\n") + 1
        return module

    def _execute(self, statement: ast.stmt, module: ModuleType) -> None:
        try:
            exec(compile(ast.Module([statement], []), str(self.file), "exec"), vars(module))
        except Exception as error:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                cell, line = self.cell_of(statement.lineno)
                reason = f"{type(error).__name__}: {error}"
                self.troubles.append(
                    f"cell {cell}, line {line}: {statement.name} cannot be defined: {reason}"
                )


def read_notebook(file: Path) -> Notebook:
    """Read the code cells of a notebook; ValueError if the file is no notebook."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        cells = [cell["source"] for cell in found["cells"] if cell["cell_type"] == "code"]
        return Notebook(file, [_without_magics("".join(source)) for source in cells])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it is no Jupyter notebook ({type(error).__name__}: {error})") from error


def _without_magics(source: str) -> str:
    """Magic and shell commands become empty lines, so that line numbers stay the same."""
    lines = source.split("\n")
    if lines[0].startswith("%%"):
        return "\n" * (len(lines) - 1)
    return "\n".join("" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines)


def is_definition(statement: ast.stmt) -> bool:
    """Whether it is an import, a function, a class or a constant; training, plots and file access are not."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef():
            return True
        case ast.Assign() | ast.AnnAssign():
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            return all(_function_name(call) in CHEAP for call in calls)
        case ast.Try(body=body):
            return all(isinstance(one, ast.Import | ast.ImportFrom) for one in body)
    return False


def _function_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
