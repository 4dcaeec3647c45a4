"""A notebook as a module: what its cells define, and nothing that they do."""

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
# Calls that a constant may be made by: they take no time, and classes below read what they give.
CHEAP = {"device", "is_available", "namedtuple", "TypeVar", "NewType", "dict", "list", "tuple", "set"}
CHEAP |= {"int", "float", "sqrt", "log", "min", "max", "len", "range", "partial", "dataclass", "field"}


@dataclass
class Notebook:
    """Its cells one after the other; `troubles` are of cells and definitions that could not be taken."""

    file: Path
    cells: list[str]
    troubles: list[str] = field(default_factory=list)

    def cell_of(self, line: int) -> tuple[int, int]:
        """Of a line of all cells together: which cell it stands in, and which line of that it is."""
        starts = [0, *accumulate(cell.count("\n") + 1 for cell in self.cells)]
        cell = bisect_right(starts, line - 1)
        return cell, line - starts[cell - 1]

    def module(self, name: str) -> ModuleType:
        """With all that is defined, made in the order in which it stands there."""
        module = ModuleType(name)
        module.__file__ = str(self.file)
        sys.modules[name] = module
        text = "\n".join(self.cells)
        # Where `inspect` looks for the source of a function or a class.
        linecache.cache[str(self.file)] = (len(text), None, text.splitlines(keepends=True), str(self.file))
        line = 0
        for number, cell in enumerate(self.cells, 1):
            try:
                statements = ast.parse(cell).body
            except SyntaxError as error:
                self.troubles.append(f"cell {number}, line {error.lineno}: SyntaxError: {error.msg}")
                statements = []
            for statement in filter(defines, statements):
                ast.increment_lineno(statement, line)
                self._do(statement, module)
            line += cell.count("\n") + 1
        return module

    def _do(self, statement: ast.stmt, module: ModuleType) -> None:
        try:
            exec(compile(ast.Module([statement], []), str(self.file), "exec"), vars(module))
        except Exception as error:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                cell, line = self.cell_of(statement.lineno)
                said = f"{type(error).__name__}: {error}"
                self.troubles.append(f"cell {cell}, line {line}: {statement.name} cannot be made: {said}")


def read_notebook(file: Path) -> Notebook:
    """Raises ValueError where it is no notebook."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        cells = [cell["source"] for cell in found["cells"] if cell["cell_type"] == "code"]
        return Notebook(file, [_without_magic("".join(source)) for source in cells])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it is no notebook of Jupyter's ({type(error).__name__}: {error})") from error


def _without_magic(source: str) -> str:
    """What is meant for IPython or a shell becomes empty lines, so that the others keep their numbers."""
    lines = source.split("\n")
    if lines[0].startswith("%%"):
        return "\n" * (len(lines) - 1)
    return "\n".join("" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines)


def defines(statement: ast.stmt) -> bool:
    """Imports, functions, classes and constants. What trains, plots or reads files is left out."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef():
            return True
        case ast.Assign() | ast.AnnAssign():
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            return all(_called(call) in CHEAP for call in calls)
        case ast.Try(body=body):
            return all(isinstance(one, ast.Import | ast.ImportFrom) for one in body)
    return False


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
