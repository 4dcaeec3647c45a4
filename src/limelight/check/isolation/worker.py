"""The process in which someone's code runs; what is found goes to a pipe, line by line."""

import importlib.util
import inspect
import json
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from limelight.check.isolation.notebook import NOTEBOOK, Notebook, read_notebook
from limelight.check.report import Report

MODULE = "submission"


def main() -> None:
    request = json.loads(sys.argv[1])
    with os.fdopen(request["pipe"], "w", buffering=1) as pipe:
        _limit_memory(request["memory"])
        warnings.simplefilter("ignore")
        submission = _load(Path(request["file"]), pipe)
        if submission is not None:
            _examine_all(submission, request, pipe)


@dataclass
class Submission:
    """What a file defines, and where of a notebook it stands."""

    module: ModuleType
    notebook: Notebook | None = None

    @property
    def names(self) -> dict[str, Any]:
        return {name: thing for name, thing in vars(self.module).items() if not name.startswith("__")}

    @property
    def own(self) -> list[str]:
        things = {
            name: thing
            for name, thing in self.names.items()
            if inspect.isclass(thing) or inspect.isfunction(thing)
        }
        return [name for name, thing in things.items() if thing.__module__ == MODULE]

    def placed(self, report: Report) -> Report:
        """With the cell of a notebook, and the line in it."""
        if self.notebook is None or not report.line:
            return report
        cell, line = self.notebook.cell_of(report.line)
        return report.model_copy(update={"cell": cell, "line": line})


def _limit_memory(limit: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    except (ImportError, OSError, ValueError):  # a system without such limits
        pass


def _tell(pipe: TextIO, **said: Any) -> None:
    pipe.write(json.dumps(said) + "\n")


def _load(file: Path, pipe: TextIO) -> Submission | None:
    """What the file defines; anything that it does on the way may go wrong."""
    import torch

    torch.set_num_threads(1)
    _tell(pipe, ready=True)  # from now on, time is theirs
    sys.path.insert(0, str(file.parent))
    try:
        found = _of_notebook(file, pipe) if file.suffix == NOTEBOOK else Submission(_imported(file))
    except BaseException as error:  # exit() as well
        _tell(pipe, trouble=f"it cannot be imported: {_where(error, file)}")
        return None
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")
    return found


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def _of_notebook(file: Path, pipe: TextIO) -> Submission:
    notebook = read_notebook(file)
    module = notebook.module(MODULE)
    for trouble in notebook.troubles:
        _tell(pipe, trouble=trouble)
    return Submission(module, notebook)


def _where(error: BaseException, file: Path) -> str:
    """The error in one line, with the line of the file that it comes from."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    first = str(error).splitlines()[0] if str(error) else ""
    words = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"{words} (line {line})" if line else words


def _examine_all(submission: Submission, request: dict[str, Any], pipe: TextIO) -> None:
    from limelight.check.adapter import adapter
    from limelight.check.examine import candidates, examine, kind_of, parts_of

    name, kind, names = request["name"], request["kind"], submission.names
    known = candidates(names, MODULE)
    file = Path(request["file"])
    if name is None:
        found = {one: (thing, k) for one, (thing, k) in known.items() if kind in (None, k)}
        if not found:
            _tell(pipe, trouble=_nothing_known(submission, kind))
    elif name not in names:
        _tell(pipe, trouble=f"there is no {name!r} in it; there are: {', '.join(submission.own) or 'none'}")
        return
    else:
        thing = names[name]
        kind = kind or kind_of(name, thing)
        if kind is None:
            lines = adapter(file, name, "KIND", is_class=inspect.isclass(thing))
            report = Report(name=name, kind="?", trouble=_no_kind(name), adapter=lines)
            _tell(pipe, report=report.model_dump_json())
            return
        found = {name: (thing, kind)} | {one: known[one] for one in parts_of(thing, names) if one in known}
    for one, (thing, its_kind) in found.items():
        if one in request["skip"]:
            continue
        _tell(pipe, begin=one, kind=its_kind)
        report = submission.placed(examine(thing, one, its_kind, names))
        if report.trouble:
            lines = adapter(file, one, its_kind, is_class=inspect.isclass(thing))
            within = [other for other in found if one in parts_of(found[other][0], names)]
            report = report.model_copy(update={"adapter": lines, "within": tuple(within)})
        _tell(pipe, report=report.model_dump_json())


def _no_kind(name: str) -> str:
    from limelight.check.harness.argument_names import KINDS

    return f"what {name} is cannot be told from its name: say it with --as: {', '.join(KINDS)}"


def _nothing_known(submission: Submission, kind: str | None) -> str:
    there = ", ".join(submission.own) or "nothing"
    what = f"a {kind}" if kind else "a known part of a Transformer"
    return f"nothing in it looks like {what}; it defines {there}. Name one: FILE.py::NAME --as KIND"


if __name__ == "__main__":
    main()
