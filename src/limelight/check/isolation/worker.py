"""The process that runs the checked code; it writes each report as a line of JSON to a pipe."""

import inspect
import json
import os
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from limelight.check.adapter import UNKNOWN, adapter
from limelight.check.discover import candidates, is_layer_of_kind, kind_of
from limelight.check.examine import examine
from limelight.check.isolation.integrity import Integrity
from limelight.check.isolation.loading import Submission, load
from limelight.check.kinds import KINDS, Kind
from limelight.check.report import NO_PARTS, UNTRUSTED, Report
from limelight.check.used_names import dependencies
from limelight.systems import optional_module

LARGEST_FILE = 64 << 20  # bytes that the checked code may write to one file
Send = Callable[..., None]


def main(request: dict[str, Any], pipe: int) -> None:
    """Check the file of the request."""
    _isolate(request)
    integrity = Integrity()
    with os.fdopen(pipe, "w", buffering=1, encoding="utf-8", newline="\n") as results:
        token = request.pop("token")

        def send(**message: Any) -> None:
            results.write(json.dumps({"token": token} | message) + "\n")

        try:
            submission = load(Path(request["file"]))
            _examine_all(submission, request, send)
        except Exception as error:
            send(trouble=f"it cannot be checked: {_one_line(error)}")
        changed = integrity.changes()
        if changed:
            send(trouble=f"it changes {', '.join(changed)}: {UNTRUSTED}")
        send(done=True)


def _isolate(request: dict[str, Any]) -> None:
    """Give the process its own streams, folder and limits."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.chdir(request["folder"])
    os.environ["TMPDIR"] = request["folder"]
    _limit_memory(request["memory"])
    if not torch.cuda.is_available():  # code that says .cuda() is checked on the CPU
        torch.Tensor.cuda = nn.Module.cuda = lambda self, *_, **__: self  # type: ignore[assignment,method-assign]
    warnings.simplefilter("ignore")
    sys.argv = [request["file"]]
    random.seed(1)


def _limit_memory(limit: int) -> None:
    """Limit the size of files, and the memory beyond what torch uses, as far as this system can."""
    resource = optional_module("resource")
    if resource is None:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # only Linux has /proc
        used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))


def _one_line(error: BaseException) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _examine_all(submission: Submission, request: dict[str, Any], send: Send) -> None:
    for note in submission.notes:
        send(note=note)
    for trouble in submission.troubles:
        send(trouble=trouble)
    file, names = Path(request["file"]), submission.names
    found = _selected(submission, request, send)
    for name, (thing, kind) in found.items():
        if name in request["skip"]:
            continue
        send(begin=name, kind=kind.name)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device("cpu")
        try:
            report = submission.located(examine(thing, name, kind, names))
        except Exception as error:  # an object that behaves in a way that nothing above expects
            report = Report(name=name, kind=kind.name, trouble=f"it cannot be checked: {_one_line(error)}")
        within = tuple(other for other in found if name in dependencies(found[other][0], names))
        report = report.model_copy(update={"within": within})
        if report.trouble:
            code = adapter(file, name, kind, is_class=inspect.isclass(thing))
            report = report.model_copy(update={"adapter": code})
        send(report=report.model_dump_json())


def _selected(submission: Submission, request: dict[str, Any], send: Send) -> dict[str, tuple[Any, Kind]]:
    """The objects to check: all of a known kind, or the requested one with the objects that it uses."""
    name, names = request["name"], submission.names
    kind = None if request["kind"] is None else KINDS[request["kind"]]
    known = candidates(names, submission.module.__name__)
    if name is None:
        skipped = [one for one in submission.own if one not in known and is_layer_of_kind(one, names[one])]
        if skipped:
            send(note=f"not checked, as they are recurrent or only base classes: {', '.join(skipped)}")
        found = {one: known[one] for one in known if kind is None or known[one][1] is kind}
        if not found:
            send(trouble=_no_candidates(submission, request["kind"]))
        return found
    if name not in names:
        send(trouble=f"it defines no {name!r}; it defines: {', '.join(submission.own) or 'nothing'}")
        return {}
    thing = names[name]
    kind = kind or kind_of(name, thing)
    if kind is None:
        code = adapter(Path(request["file"]), name, UNKNOWN, is_class=inspect.isclass(thing))
        allowed = ", ".join(sorted(KINDS))
        trouble = f"its kind cannot be derived from its name; give it with --as; allowed: {allowed}"
        send(report=Report(name=name, kind="?", trouble=trouble, adapter=code).model_dump_json())
        return {}
    return {name: (thing, kind)} | {one: known[one] for one in dependencies(thing, names) if one in known}


def _no_candidates(submission: Submission, kind: str | None) -> str:
    defined = ", ".join(submission.own) or "nothing"
    what = f"the kind {kind}" if kind else "a part of a Transformer"
    found = f"{NO_PARTS} {what}; it defines {defined}"
    return f"{found}. Give a name and a kind: FILE.py::NAME --as KIND"
