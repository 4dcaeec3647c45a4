"""The process in which someone's code runs; what is found goes to a pipe, line by line."""

import importlib.util
import inspect
import json
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

MODULE = "submission"


def main() -> None:
    request = json.loads(sys.argv[1])
    with os.fdopen(request["pipe"], "w", buffering=1) as pipe:
        _limit_memory(request["memory"])
        warnings.simplefilter("ignore")
        namespace = _load(Path(request["file"]), pipe)
        if namespace is not None:
            _examine_all(namespace, request, pipe)


def _limit_memory(limit: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    except (ImportError, OSError, ValueError):  # a system without such limits
        pass


def _tell(pipe: TextIO, **said: Any) -> None:
    pipe.write(json.dumps(said) + "\n")


def _load(file: Path, pipe: TextIO) -> dict[str, Any] | None:
    """What the file defines; anything that it does on the way may go wrong."""
    import torch

    torch.set_num_threads(1)
    _tell(pipe, ready=True)  # from now on, time is theirs
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # exit() as well
        _tell(pipe, trouble=f"it cannot be imported: {_where(error, file)}")
        return None
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")
    return _defined(module)


def _defined(module: ModuleType) -> dict[str, Any]:
    return {name: thing for name, thing in vars(module).items() if not name.startswith("__")}


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


def _examine_all(namespace: dict[str, Any], request: dict[str, Any], pipe: TextIO) -> None:
    from limelight.check.adapter import adapter
    from limelight.check.examine import candidates, examine, kind_of
    from limelight.check.report import Report

    name, kind = request["name"], request["kind"]
    if name is None:
        found = candidates(namespace, MODULE)
        if kind is not None:
            found = {one: (thing, kind) for one, (thing, k) in found.items() if k == kind}
        if not found:
            _tell(pipe, trouble=_nothing_known(namespace, kind))
    elif name not in namespace:
        _tell(pipe, trouble=f"there is no {name!r} in it; there are: {', '.join(_own(namespace)) or 'none'}")
        return
    else:
        thing = namespace[name]
        kind = kind or kind_of(name, thing)
        if kind is None:
            lines = adapter(Path(request["file"]).stem, name, "KIND", is_class=inspect.isclass(thing))
            report = Report(name=name, kind="?", trouble=_no_kind(name), adapter=lines)
            _tell(pipe, report=report.model_dump_json())
            return
        found = {name: (thing, kind)}
    for one, (thing, its_kind) in found.items():
        if one in request["skip"]:
            continue
        _tell(pipe, begin=one, kind=its_kind)
        report = examine(thing, one, its_kind, namespace)
        if report.trouble:
            lines = adapter(Path(request["file"]).stem, one, its_kind, is_class=inspect.isclass(thing))
            report = report.model_copy(update={"adapter": lines})
        _tell(pipe, report=report.model_dump_json())


def _own(namespace: dict[str, Any]) -> list[str]:
    things = {
        name: thing
        for name, thing in namespace.items()
        if inspect.isclass(thing) or inspect.isfunction(thing)
    }
    return [name for name, thing in things.items() if thing.__module__ == MODULE]


def _no_kind(name: str) -> str:
    from limelight.check.names import KINDS

    return f"what {name} is cannot be told from its name: say it with --as: {', '.join(KINDS)}"


def _nothing_known(namespace: dict[str, Any], kind: str | None) -> str:
    there = ", ".join(_own(namespace)) or "nothing"
    what = f"a {kind}" if kind else "a known part of a Transformer"
    return f"nothing in it looks like {what}; it defines {there}. Name one: FILE.py::NAME --as KIND"


if __name__ == "__main__":
    main()
