"""A copy of a submission in a temporary folder, in which it is checked."""

import ast
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limelight.check.isolation.connection import Server
from limelight.check.isolation.definitions import undefined_names
from limelight.check.isolation.parent import check_file
from limelight.check.isolation.sources import NOTEBOOK, read_source
from limelight.check.marking.rubric import Rubric
from limelight.check.marking.submissions import Submission
from limelight.check.page import read_cells
from limelight.check.report import NO_PARTS, FileReport

MOST_FILES = 20  # of one submission that are checked
ADAPTER = "# The adapter of the rubric"


@contextmanager
def working_copy(submission: Submission, adapter: str = "") -> Iterator[Path]:
    """A folder with copies of the files; code of the adapter is added to those that define what it needs."""
    with tempfile.TemporaryDirectory(prefix="limelight-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "submission"
        # With a folder .git, it is the root of a repository: no folder above it is searched for modules.
        (root / ".git").mkdir(parents=True)
        for name, file in submission.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, root / name)
        for name in submission.code if adapter else ():
            _add_adapter(root / name, adapter)
        yield root


def check_copy(root: Path, submission: Submission, rubric: Rubric, server: Server) -> list[FileReport]:
    """Check all files of a submission; the reports have no temporary paths."""
    found = [
        _check(root / name, rubric, server).model_copy(update={"file": name})
        for name in submission.code[:MOST_FILES]
    ]
    # Files beside the one with the parts need not contain any.
    found = [one for one in found if not one.trouble.startswith(NO_PARTS)] or found[:1]
    return [_without_paths(report, root) for report in found]


def _check(file: Path, rubric: Rubric, server: Server) -> FileReport:
    """All objects of a known kind, and the parts of the rubric whose kind is not clear from their name."""
    found = check_file(file, limits=rubric.limits, server=server)
    known = {(report.name, report.kind) for report in found.reports}
    for part in rubric.parts.values():
        is_known = any(name == part.name and part.kind in ("", kind) for name, kind in known)
        if part.name and not is_known and part.name in _defined_names(file):
            one = check_file(file, part.name, part.kind or None, rubric.limits, server)
            new = tuple(report for report in one.reports if report.name == part.name)
            if not new:  # the file cannot be loaded
                break
            old = tuple(report for report in found.reports if report.name != part.name)
            # Without reports, the trouble was that no name is known.
            trouble = found.trouble if found.reports else one.trouble
            found = found.model_copy(update={"reports": old + new, "trouble": trouble})
    return found


def _without_paths(report: FileReport, root: Path) -> FileReport:
    """The report without what differs from run to run: temporary paths, and addresses of objects."""
    text = report.model_dump_json().replace(json.dumps(f"{root}{os.sep}")[1:-1], "")
    folder = re.escape(json.dumps(tempfile.gettempdir())[1:-1])
    text = re.sub(rf"{folder}(/|\\\\)limelight-\w+(/|\\\\)?", "", text)  # a backslash is doubled in JSON
    return FileReport.model_validate_json(re.sub(r"0x[0-9a-f]{6,}", "0x…", text))


def _defined_names(file: Path) -> set[str]:
    """The classes and functions of a file; none if it cannot be read."""
    try:
        statements = read_source(file).statements() if read_cells(file) else []
    except (ValueError, RecursionError, MemoryError):
        return set()
    return {one.name for one in statements if isinstance(one, ast.ClassDef | ast.FunctionDef)}


def _add_adapter(file: Path, adapter: str) -> None:
    needed, cells = undefined_names(ast.parse(adapter).body), read_cells(file)
    if not cells or (needed and not needed & _defined_names(file)):
        return
    code = f"{ADAPTER}\n{adapter}"
    if file.suffix != NOTEBOOK:
        file.write_text(f"{cells[0].rstrip()}\n\n\n{code}", "utf-8", newline="\n")
        return
    notebook = json.loads(file.read_bytes().decode("utf-8-sig"))
    notebook["cells"].append({"cell_type": "code", "source": code})
    file.write_text(json.dumps(notebook), "utf-8")
