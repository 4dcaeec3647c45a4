"""The process that runs the checked code; it writes each report as a line of JSON to a pipe."""

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
from limelight.check.kinds import KINDS, Kind
from limelight.check.report import Report

MODULE = "submission"


def main() -> None:
    """Check the file of the request in the first argument."""
    request = json.loads(sys.argv[1])
    with os.fdopen(request["pipe"], "w", buffering=1) as pipe:
        _limit_memory(request["memory"])
        warnings.simplefilter("ignore")
        submission = _load(Path(request["file"]), pipe)
        if submission is not None:
            _examine_all(submission, request, pipe)


@dataclass
class Submission:
    """The module of a checked file, and the notebook if it is one."""

    module: ModuleType
    notebook: Notebook | None = None

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
        return [name for name, thing in things.items() if thing.__module__ == MODULE]

    def located(self, report: Report) -> Report:
        """The report with the cell of the notebook, and the line in that cell."""
        if self.notebook is None or not report.line:
            return report
        cell, line = self.notebook.cell_of(report.line)
        return report.model_copy(update={"cell": cell, "line": line})


def _limit_memory(limit: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    except (ImportError, OSError, ValueError):  # this system has no such limits
        pass


def _send(pipe: TextIO, **message: Any) -> None:
    pipe.write(json.dumps(message) + "\n")


def _load(file: Path, pipe: TextIO) -> Submission | None:
    """Import the file; None if that fails."""
    import torch

    torch.set_num_threads(1)
    _send(pipe, ready=True)  # from here on, the time of the checked code is counted
    sys.path.insert(0, str(file.parent))
    try:
        found = _load_notebook(file, pipe) if file.suffix == NOTEBOOK else Submission(_import(file))
    except BaseException as error:  # exit() as well
        _send(pipe, trouble=f"it cannot be imported: {_one_line(error, file)}")
        return None
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")
    return found


def _import(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def _load_notebook(file: Path, pipe: TextIO) -> Submission:
    notebook = read_notebook(file)
    module = notebook.module(MODULE)
    for trouble in notebook.troubles:
        _send(pipe, trouble=trouble)
    return Submission(module, notebook)


def _one_line(error: BaseException, file: Path) -> str:
    """The error in one line, with the line of the file where it was raised."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    first = str(error).splitlines()[0] if str(error) else ""
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"{text} (line {line})" if line else text


def _examine_all(submission: Submission, request: dict[str, Any], pipe: TextIO) -> None:
    from limelight.check.adapter import adapter
    from limelight.check.discover import dependencies
    from limelight.check.examine import examine

    file, names = Path(request["file"]), submission.names
    found = _selected(submission, request, pipe)
    for name, (thing, kind) in found.items():
        if name in request["skip"]:
            continue
        _send(pipe, begin=name, kind=kind.name)
        report = submission.located(examine(thing, name, kind, names))
        if report.trouble:
            code = adapter(file, name, kind, is_class=inspect.isclass(thing))
            within = [other for other in found if name in dependencies(found[other][0], names)]
            report = report.model_copy(update={"adapter": code, "within": tuple(within)})
        _send(pipe, report=report.model_dump_json())


def _selected(submission: Submission, request: dict[str, Any], pipe: TextIO) -> dict[str, tuple[Any, Kind]]:
    """The objects to check: all of a known kind, or the requested one with the objects that it uses."""
    from limelight.check.adapter import UNKNOWN, adapter
    from limelight.check.discover import candidates, dependencies, kind_of

    name, names = request["name"], submission.names
    kind = None if request["kind"] is None else KINDS[request["kind"]]
    known = candidates(names, MODULE)
    if name is None:
        found = {one: known[one] for one in known if kind is None or known[one][1] is kind}
        if not found:
            _send(pipe, trouble=_no_candidates(submission, request["kind"]))
        return found
    if name not in names:
        _send(pipe, trouble=f"it defines no {name!r}; it defines: {', '.join(submission.own) or 'nothing'}")
        return {}
    thing = names[name]
    kind = kind or kind_of(name, thing)
    if kind is None:
        code = adapter(Path(request["file"]), name, UNKNOWN, is_class=inspect.isclass(thing))
        trouble = f"its kind cannot be derived from its name: give it with --as: {', '.join(sorted(KINDS))}"
        _send(pipe, report=Report(name=name, kind="?", trouble=trouble, adapter=code).model_dump_json())
        return {}
    return {name: (thing, kind)} | {one: known[one] for one in dependencies(thing, names) if one in known}


def _no_candidates(submission: Submission, kind: str | None) -> str:
    defined = ", ".join(submission.own) or "nothing"
    what = f"a {kind}" if kind else "a part of a Transformer"
    found = f"no name in it looks like {what}; it defines {defined}"
    return f"{found}. Give a name and a kind: FILE.py::NAME --as KIND"


if __name__ == "__main__":
    main()
