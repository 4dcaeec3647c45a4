"""The code of a Python file or a notebook, as statements with their line numbers."""

import ast
import json
import linecache
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

NOTEBOOK = ".ipynb"


@dataclass
class Source:
    """The code of one file: the cells of a notebook, or the whole text of a Python file as one cell."""

    file: Path
    cells: list[str]
    errors: list[str] = field(default_factory=list)  # cells that are no Python code

    @property
    def is_notebook(self) -> bool:
        """Whether it is a notebook, whose lines are counted in each cell."""
        return self.file.suffix == NOTEBOOK

    def place(self, line: int) -> tuple[int, int]:
        """The cell, and the line in that cell, of a line of all cells together; cell 0 in a Python file."""
        if not self.is_notebook:
            return 0, line
        starts = [0, *accumulate(cell.count("\n") + 1 for cell in self.cells)]
        cell = bisect_right(starts, line - 1)
        return cell, line - starts[cell - 1]

    def where(self, line: int) -> str:
        """A line as text, such as "cell 3, line 7"."""
        cell, line = self.place(line)
        return f"cell {cell}, line {line}" if cell else f"line {line}"

    def statements(self) -> list[ast.stmt]:
        """All statements outside functions and classes; cells that are no Python code are emptied."""
        found: list[ast.stmt] = []
        offset = 0
        for number, cell in enumerate(self.cells):
            try:
                body = ast.parse(cell).body
            except SyntaxError as error:
                line = self.where(offset + (error.lineno or 1))
                self.errors.append(f"{line}: SyntaxError: {error.msg}")
                self.cells[number] = "\n" * cell.count("\n")
                body = []
            found += [ast.increment_lineno(statement, offset) for statement in body]
            offset += cell.count("\n") + 1
        return found

    def show_to_inspect(self) -> None:
        """Let `inspect` find the source code of functions and classes."""
        text = "\n".join(self.cells)
        linecache.cache[str(self.file)] = (len(text), None, text.splitlines(keepends=True), str(self.file))


def read_source(file: Path) -> Source:
    """Read a Python file or a notebook; ValueError if it cannot be read."""
    cells = code_cells(file)
    if file.suffix == NOTEBOOK or not _is_python(cells[0]):
        cells = [_without_magics(cell) for cell in cells]
    return Source(file, cells)


def code_cells(file: Path) -> list[str]:
    """The code cells of a notebook as they are, or the text of a Python file; ValueError if unreadable."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start})") from None
    return _cells(text) if file.suffix == NOTEBOOK else [text]


def _cells(text: str) -> list[str]:
    try:
        cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return ["".join(source) for source in cells]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it is not a Jupyter notebook ({type(error).__name__}: {error})") from error


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _without_magics(source: str) -> str:
    """Magic, shell and help commands become `pass`, so that line numbers and blocks stay the same."""
    lines = source.split("\n")
    if lines[0].startswith("%%"):
        return "\n" * (len(lines) - 1)
    return "\n".join(_without_magic(line) for line in lines)


def _without_magic(line: str) -> str:
    code = line.strip()
    is_command = code[:1] in ("%", "!", "?") or (code.endswith("?") and "#" not in code)
    is_output = "=" in code and code.split("=", 1)[1].strip()[:1] in ("!", "%")
    return line[: len(line) - len(line.lstrip())] + "pass" if is_command or is_output else line
