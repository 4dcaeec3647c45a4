"""The rubric: which parts are expected, and the points for each promise."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import tomli_w
from pydantic import Field

from limelight.check.isolation.parent import Limits
from limelight.check.kinds import KINDS
from limelight.check.report import FileReport
from limelight.config import Config, read
from limelight.errors import WrongInput, unknown

PROMISES = {key.partition(":")[0] for kind in KINDS.values() for key in kind.promises + kind.table_promises}
PROMISES |= {"runs"}
COMMENT = """\
# Rubric for `limelight mark`. Each part is a class or function that students write: found by its `name`,
# or else by its `kind`. `points` are given for each promise that is kept (docs/check.md lists all promises).
#
# More settings:
# leave_out = ["half"]          promises without points, in all parts
# adapter = "adapter.py"        code that is added to each submission
# handout = ["handout.py"]      code that all students were given: not counted as similar
# strict = true                 warnings give no points
# inapplicable = true           promises that do not apply give points
# seconds = 60                  time limit per object; file_seconds: per file
"""


class Part(Config):
    """A class or function that is expected in each submission."""

    name: str = Field("", description="the name of the class or function")
    kind: str = Field(
        "", description="its kind, such as multi-head-attention; used if no object has the name"
    )
    points: dict[str, float] = Field(description="the points for each promise that is kept")


class Rubric(Config):
    """What is expected, and what it is worth."""

    title: str = Field("Marks", description="the title of all pages")
    parts: dict[str, Part] = Field({}, description="the expected parts by their titles")
    leave_out: list[str] = Field([], description="promises that are not marked")
    adapter: str = Field("", description="a Python file whose code is added to each submission")
    handout: list[str] = Field([], description="files that all students were given")
    strict: bool = Field(False, description="whether warnings give no points")
    inapplicable: bool = Field(False, description="whether promises that do not apply give points")
    seconds: float = Field(60.0, gt=0, description="time limit for each object, and for loading a file")
    file_seconds: float = Field(300.0, gt=0, description="time limit for each file")

    @property
    def limits(self) -> Limits:
        """The limits for the process that runs a submission."""
        return Limits(seconds=self.seconds, file_seconds=self.file_seconds, network=False)

    def points_of(self, title: str) -> dict[str, float]:
        """The points for each promise of a part, without those that are left out."""
        points = self.parts[title].points
        return {promise: points[promise] for promise in points if promise not in self.leave_out}

    @property
    def maximum(self) -> float:
        """The points of a submission that keeps all promises."""
        return sum(sum(self.points_of(title).values()) for title in self.parts)


def read_rubric(file: Path) -> Rubric:
    """Read a rubric from a TOML file; errors name the file and the key."""
    try:
        values = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise WrongInput(f"{file}: there is no such file; `limelight mark --init` writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongInput(f"{file}: {error}") from None
    try:
        rubric = read(Rubric, values)
        _check_names(rubric, file.parent)
    except WrongInput as error:
        raise WrongInput(f"{file}: {error}") from None
    return rubric


def _check_names(rubric: Rubric, folder: Path) -> None:
    if not rubric.parts:
        raise WrongInput("parts is empty; at least one part is required")
    for title, part in rubric.parts.items():
        if not part.name and not part.kind:
            raise WrongInput(f"parts.{title} has neither a name nor a kind; one of them is required")
        if part.kind and part.kind not in KINDS:
            raise unknown(f"parts.{title}.kind", part.kind, KINDS)
        for promise, points in part.points.items():
            if promise not in PROMISES:
                raise unknown(f"parts.{title}.points: promise", promise, PROMISES)
            if points < 0:
                raise WrongInput(f"parts.{title}.points.{promise} is {points:g}; allowed: 0 or more")
    for promise in rubric.leave_out:
        if promise not in PROMISES:
            raise unknown("leave_out: promise", promise, PROMISES)
    for key, file in [("handout", one) for one in rubric.handout] + [("adapter", rubric.adapter)]:
        if file and not (folder / file).is_file():
            raise WrongInput(f"{key}: there is no file {folder / file}")


def rubric_of(reports: Sequence[FileReport], title: str, leave_out: Sequence[str] = ()) -> Rubric:
    """A rubric with one point for each promise that a reference solution keeps; it must break none."""
    for promise in leave_out:
        if promise not in PROMISES:
            raise unknown("leave_out: promise", promise, PROMISES)
    problems = [f"{found.file}: {found.trouble}" for found in reports if found.trouble]
    parts: dict[str, Part] = {}
    for found in reports:
        for report in found.reports:
            wanted = [finding for finding in report.findings if finding.promise not in leave_out]
            problems += [
                f"{found.file}: {report.name} breaks {finding.promise} ({finding.statement})"
                for finding in wanted
                if finding.verdict == "FAIL"
            ]
            kept = {finding.promise: 1.0 for finding in wanted if finding.verdict in ("pass", "warn")}
            if kept:
                parts[report.name] = Part(name=report.name, kind=report.kind, points=kept)
    if problems or not parts:
        advice = "correct it (`limelight check` shows the details), or leave promises out with --leave-out"
        reasons = "; ".join(problems) or "it contains no part that could be checked"
        raise WrongInput(f"the reference solution must get full marks: {advice}. {reasons}")
    return Rubric(title=title, parts=parts, leave_out=list(leave_out))


def rubric_text(rubric: Rubric) -> str:
    """The rubric as TOML, with comments about the settings."""
    values = rubric.model_dump(exclude_defaults=True)
    for part in values["parts"].values():
        part["points"] = {promise: int(points) for promise, points in part["points"].items()}
    return f"{COMMENT}\n{tomli_w.dumps(values)}"
