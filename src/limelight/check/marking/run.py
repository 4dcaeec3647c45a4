"""Marks a class: checks all submissions, two at a time, and writes marks and pages to a folder."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from limelight import __version__
from limelight.check.isolation.connection import Server
from limelight.check.isolation.network import can_forbid_network
from limelight.check.marking.output import gradescope_results, marks_table
from limelight.check.marking.pages import overview_page, student_page
from limelight.check.marking.points import Mark, give_points
from limelight.check.marking.rubric import Rubric, read_rubric, rubric_of, rubric_text
from limelight.check.marking.similarity import similar_pairs
from limelight.check.marking.submissions import Submission, find_submissions
from limelight.check.marking.working_copy import check_copy, working_copy
from limelight.check.page import read_cells
from limelight.check.report import FileReport
from limelight.errors import Stopped, WrongInput

WORKERS = 2
OVERVIEW, TABLE, RUBRIC = "overview.html", "marks.csv", "rubric.toml"
UNFINISHED = ".tmp-"


def mark_class(path: Path, rubric_file: Path, out: Path) -> list[Mark]:
    """Mark all submissions and write the results; results that are there already are used again."""
    rubric = read_rubric(rubric_file)
    adapter = _adapter(rubric, rubric_file.parent)
    submissions = find_submissions(path)
    _prepare(out, rubric_file.read_bytes(), submissions)
    version = f"{__version__} {rubric.model_dump_json()} {adapter}"
    with ThreadPoolExecutor(WORKERS) as pool, Server() as server:
        mark_one = partial(_mark_one, rubric=rubric, adapter=adapter, version=version, out=out, server=server)
        marks = list(_with_progress(pool.map(mark_one, submissions), len(submissions)))
    handout = [cell for name in rubric.handout for cell in read_cells(rubric_file.parent / name)]
    cells = {mark.submission.key: [cell for file in mark.code.values() for cell in file] for mark in marks}
    pairs = similar_pairs(cells, [*handout, adapter])
    overview = overview_page(rubric, marks, pairs, has_network=not can_forbid_network())
    _replace(out / OVERVIEW, overview)
    _replace(out / TABLE, "\ufeff" + marks_table(rubric, marks))  # the mark lets Excel read UTF-8
    return marks


def write_rubric(solution: Path, file: Path, leave_out: Sequence[str] = ()) -> Rubric:
    """Write a rubric from a reference solution, which must get full marks."""
    if file.exists():
        raise WrongInput(f"{file} exists; choose another file with --rubric")
    submissions = find_submissions(solution)
    if len(submissions) != 1:
        raise WrongInput(f"{solution} contains {len(submissions)} submissions; allowed: one solution")
    with Server() as server, working_copy(submissions[0]) as root:
        reports = check_copy(root, submissions[0], Rubric(), server)
    rubric = rubric_of(reports, solution.stem, leave_out)
    mark = give_points(rubric, submissions[0], reports, {})
    if mark.points < mark.maximum:
        raise WrongInput(f"{solution} gets only {mark.points:g} of {mark.maximum:g} points by its own rubric")
    _replace(file, rubric_text(rubric))
    return rubric


def _adapter(rubric: Rubric, folder: Path) -> str:
    if not rubric.adapter:
        return ""
    code = "\n".join(read_cells(folder / rubric.adapter))
    try:
        compile(code, rubric.adapter, "exec")
    except SyntaxError as error:
        raise WrongInput(f"adapter: {rubric.adapter}:{error.lineno}: {error.msg}") from None
    return code


def _prepare(out: Path, rubric: bytes, submissions: Sequence[Submission]) -> None:
    """Create the folder; WrongInput if it contains anything but results by the same rubric."""
    if out.exists() and not out.is_dir():
        raise WrongInput(f"{out} is a file; --out needs a folder")
    out.mkdir(parents=True, exist_ok=True)
    for unfinished in out.glob(f"{UNFINISHED}*"):
        shutil.rmtree(unfinished) if unfinished.is_dir() else unfinished.unlink()
    names = {entry.name for entry in out.iterdir()}
    others = names - {OVERVIEW, TABLE, RUBRIC} - {one.key for one in submissions}
    if others:
        raise WrongInput(f"{out} has other content, such as {min(others)}; choose another folder with --out")
    if names and (RUBRIC not in names or (out / RUBRIC).read_bytes() != rubric):
        raise WrongInput(f"{out} has the marks of another rubric; choose another folder with --out")
    (out / RUBRIC).write_bytes(rubric)


def _with_progress(marks: Iterator[Mark], total: int) -> Iterator[Mark]:
    """Show a progress bar if stderr is a terminal."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        yield from progress.track(marks, total=total, description="marking")


def _mark_one(
    submission: Submission, rubric: Rubric, adapter: str, version: str, out: Path, server: Server
) -> Mark:
    """Check one submission and write its folder, unless it is there already."""
    folder = out / submission.key
    digest = _digest(submission, version)
    with working_copy(submission, adapter) as root:
        code = {name: read_cells(root / name) for name in submission.code}
        reports = _stored(folder, digest)
        if reports is not None:
            return give_points(rubric, submission, reports, code)
        reports = check_copy(root, submission, rubric, server)
    if server.is_closed:
        raise Stopped("the marking has been stopped")
    mark = give_points(rubric, submission, reports, code)
    stored = {"digest": digest, "reports": [report.model_dump() for report in reports]}
    files = {
        "report.html": student_page(rubric, mark),
        "results.json": gradescope_results(mark),
        "check.json": json.dumps(stored, ensure_ascii=False, indent=1) + "\n",
    }
    _write_folder(folder, files)
    return mark


def _digest(submission: Submission, version: str) -> str:
    """Of everything that the result depends on."""
    digest = hashlib.sha256(version.encode())
    for name in sorted(submission.files):
        content = hashlib.sha256(submission.files[name].read_bytes()).hexdigest()
        digest.update(f"{name}\n{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _stored(folder: Path, digest: str) -> list[FileReport] | None:
    """The reports of an earlier run with the same input."""
    try:
        stored = json.loads((folder / "check.json").read_text("utf-8"))
        if stored["digest"] != digest:
            return None
        return [FileReport.model_validate_json(json.dumps(report)) for report in stored["reports"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_folder(folder: Path, files: dict[str, str]) -> None:
    """Create a folder with these files; it appears complete or not at all."""
    unfinished = folder.with_name(f"{UNFINISHED}{folder.name}")
    unfinished.mkdir()
    for name, text in files.items():
        (unfinished / name).write_bytes(text.encode(errors="backslashreplace"))
    if folder.exists():
        shutil.rmtree(folder)
    unfinished.rename(folder)


def _replace(file: Path, text: str) -> None:
    """Write a file; it appears complete or not at all."""
    unfinished = file.with_name(f"{UNFINISHED}{file.name}")
    unfinished.write_bytes(text.encode(errors="backslashreplace"))
    os.replace(unfinished, file)
