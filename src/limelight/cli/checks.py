"""The commands that check attention code. Imports late, so that `--help` does not wait for torch."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.options import Flag, Json, JsonLines


def check(
    path: str,
    *paths: str,
    kind: Annotated[str | None, Parameter(name="--as")] = None,
    as_json: Json = False,
    as_jsonl: JsonLines = False,
    strict: Flag = False,
    verbose: Flag = False,
    html: Path | None = None,
) -> None:
    """Check attention code that you or others wrote, with a counter-example for each mistake.

    Each function and nn.Module whose name looks like a part of a Transformer is called with small random
    inputs, and tested against the promises of its kind. The code runs in a separate process with
    limits on time and memory. This is not a sandbox: check only code that you would also run yourself.

    Exit code 0: all promises are kept. 1: a promise is broken. 2: something could not be checked.

    Example: limelight check attention.py

    Example: limelight check homework.ipynb

    Example: limelight check attention.py::MyAttention --as multi-head-attention

    Example: limelight check part1.py part2.py submissions/ --json > reports.json

    Parameters
    ----------
    path
        A Python file, a notebook, a folder, or FILE.py::NAME for one class or function and the ones it uses.
    paths
        More of them.
    kind
        Kind of the object, if it cannot be derived from its name: additive-attention, causal-mask, decoder,
        decoder-block, dot-product-attention, encoder, encoder-block, feed-forward, masked-softmax,
        multi-head-attention, patch-embedding, positional-encoding, scaled-dot-product, sequence-model,
        single-head-attention or vision-transformer.
    as_json
        Print one JSON document: a list with one report per file, with all findings.
    as_jsonl
        Print the same as one JSON object per line, each as soon as its file is checked.
    strict
        Count warnings as broken promises, in the exit code and in the summary.
    verbose
        List all promises, those that are kept, too.
    html
        Also write the report to this file, as a page with the code beside the findings.
    """
    from limelight.check.format import exit_code, print_reports, show_reports
    from limelight.check.isolation.parent import check_files
    from limelight.check.kinds import KINDS
    from limelight.errors import unknown

    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    reports = check_files([path, *paths], kind)
    if as_json or as_jsonl:
        found = print_reports(reports, by_line=as_jsonl)
    else:
        found = show_reports(reports, verbose=verbose, strict=strict)
    if html is not None:
        from limelight.check.page import check_page

        html.write_text(check_page(found), "utf-8")
    if code := exit_code(found, strict=strict):
        sys.exit(code)


def mark(
    submissions: Path | None = None,
    *,
    rubric: Path = Path("rubric.toml"),
    out: Path = Path("marks"),
    init: Path | None = None,
    leave_out: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
) -> None:
    """Mark the submissions of a class by a rubric.

    Each submission is checked in a process and a copy of its own. Written are marks.csv, overview.html, and
    for each student a page (report.html) and results for Gradescope (results.json). A run that was
    interrupted continues when the command is repeated.

    Example: limelight mark --init homework_solution.py

    Example: limelight mark submissions/ --rubric rubric.toml --out marks/

    Parameters
    ----------
    submissions
        A folder with one file or folder per student, or an unpacked download of Moodle, Canvas or Gradescope.
    rubric
        The expected parts and their points, a TOML file. With --init, the file that is written.
    out
        Folder for the results.
    init
        Write a rubric from this reference solution, which must get full marks.
    leave_out
        With --init: a promise that is not marked. Can be repeated.
    """
    from limelight.check.marking.output import number
    from limelight.check.marking.run import mark_class, write_rubric
    from limelight.errors import WrongInput

    if (submissions is None) == (init is None):
        raise WrongInput("give either SUBMISSIONS or --init SOLUTION (see limelight mark --help)")
    if init is not None:
        written = write_rubric(init, rubric, leave_out)
        print(f"{rubric}: {len(written.parts)} parts, {number(written.maximum)} points")
    if submissions is not None:
        marks = mark_class(submissions, rubric, out)
        unclear = sum(bool(one.troubles) for one in marks)
        count = f"{len(marks)} submission{'s' * (len(marks) != 1)}"
        print(f"{count} marked, {unclear} to look at: {out / 'overview.html'}")
