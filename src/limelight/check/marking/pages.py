"""The pages of a marking run: one per student, and an overview of the class."""

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from limelight.check.marking.output import number, reason
from limelight.check.marking.points import Mark, PartMark
from limelight.check.marking.rubric import Rubric
from limelight.check.page import document, file_section, table, text

BINS = 10  # of the distribution of points
MOST_PAIRS = 60  # of similar submissions that are listed


def student_page(rubric: Rubric, mark: Mark) -> str:
    """The page of one student: the points, what is right and what is wrong, and the code."""
    name = mark.submission.name
    points = f"{number(mark.points)} of {number(mark.maximum)} points"
    head = f"<h1>{text(rubric.title)}: {text(name)}</h1><p>{points}</p>"
    rows = [
        [text(part.title), text(f"{part.name}\n{part.place}"), _points(part), _lost(part)]
        for part in mark.parts
    ]
    troubles = "".join(f'<p class="error">{text(trouble)}</p>' for trouble in mark.troubles)
    parts = table(["part", "object", "points", "points lost"], rows)
    files = "".join(
        file_section(order, found, mark.code.get(found.file, [])) for order, found in enumerate(mark.reports)
    )
    return document(f"{rubric.title}: {name}", f"{head}{parts}{troubles}{files}")


def _points(part: PartMark) -> str:
    return f'<span class="number">{number(part.points)} of {number(part.maximum)}</span>'


def _lost(part: PartMark) -> str:
    if part.trouble:
        return text(part.trouble)
    lost = [item for item in part.items if item.points < item.maximum]
    texts = [
        f"<code>{text(item.promise)}</code> −{number(item.maximum - item.points)}"
        + (f" ({text(reason(part, item))})" if item.finding.verdict == "n/a" else "")
        for item in lost
    ]
    return "<br>".join(texts) or "none"


def overview_page(
    rubric: Rubric, marks: Sequence[Mark], pairs: Sequence[tuple[float, str, str]], *, has_network: bool
) -> str:
    """The page about the class."""
    sections = [
        f"<h1>{text(rubric.title)}</h1><p>{len(marks)} submissions, {number(rubric.maximum)} points</p>",
        f"<h2>Distribution</h2>{_distribution(rubric, marks)}",
        f"<h2>Promises that are broken most often</h2>{_broken(marks)}",
        f"<h2>To look at</h2><p>A part was not found or could not be checked.</p>{_troubles(marks)}",
        f"<h2>Similar submissions</h2>{_similar(marks, pairs)}",
        f"<h2>All submissions</h2>{_everybody(rubric, marks)}",
        f"<h2>Isolation</h2><p>{_isolation(has_network=has_network)}</p>",
    ]
    return document(rubric.title, "".join(sections))


def _link(mark: Mark) -> str:
    return f'<a href="{quote(mark.submission.key)}/report.html">{text(mark.submission.name)}</a>'


def _distribution(rubric: Rubric, marks: Sequence[Mark]) -> str:
    share = [mark.points / mark.maximum if mark.maximum else 0.0 for mark in marks]
    numbers = Counter(min(BINS - 1, int(one * BINS + 1e-9)) for one in share)
    bars = [
        (f"{number(rubric.maximum * one / BINS)} – {number(rubric.maximum * (one + 1) / BINS)}", numbers[one])
        for one in range(BINS)
    ]
    return _bars(bars)


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    """Labels with bars and numbers."""
    most = max((count for _, count in rows), default=0)
    lines = "".join(
        f'<li><span class="bar-text">{text(label)}</span><span class="bar">'
        f'<span style="width:{100 * count / most if most else 0:.0f}%"></span></span>'
        f'<span class="number">{count}</span></li>'
        for label, count in rows
    )
    return f'<ul class="bars">{lines}</ul>'


def _broken(marks: Sequence[Mark]) -> str:
    numbers = Counter(
        f"{part.title}: {item.promise}"
        for mark in marks
        for part in mark.parts
        for item in part.items
        if item.finding.verdict == "FAIL"
    )
    rows = sorted(numbers.items(), key=lambda one: (-one[1], one[0]))
    return _bars(rows[:30]) if rows else "<p>None.</p>"


def _troubles(marks: Sequence[Mark]) -> str:
    rows = [[_link(mark), "<br>".join(map(text, mark.troubles))] for mark in marks if mark.troubles]
    return table(["student", "reason"], rows) if rows else "<p>Nobody.</p>"


def _similar(marks: Sequence[Mark], pairs: Sequence[tuple[float, str, str]]) -> str:
    note = (
        "<p>The share of code that two submissions have in common. Names and comments are not compared; "
        "code of the handout, and code that most submissions have, is not counted. Short solutions of the "
        "same exercise are often similar: this is no evidence of copying.</p>"
    )
    by_key = {mark.submission.key: mark for mark in marks}
    rows = [
        [f"{int(100 * share)} %", _link(by_key[one]), _link(by_key[other])]
        for share, one, other in pairs[:MOST_PAIRS]
    ]
    more = f"<p>And {len(pairs) - MOST_PAIRS} more pairs.</p>" if len(pairs) > MOST_PAIRS else ""
    return note + (table(["common", "student", "student"], rows) + more if rows else "<p>None.</p>")


def _everybody(rubric: Rubric, marks: Sequence[Mark]) -> str:
    titles = ["student", *map(text, rubric.parts), "total"]
    rows = [
        [_link(mark), *(number(part.points) for part in mark.parts), number(mark.points)] for mark in marks
    ]
    return table(titles, rows)


def _isolation(*, has_network: bool) -> str:
    network = (
        "This system could not forbid the network: submissions could use it."
        if has_network
        else "Submissions had no network."
    )
    return (
        f"{network} Each submission was checked in processes of its own and in a copy of its own, with "
        "limits on time, memory, processes, files and output. This is not a sandbox: the code runs with the "
        "rights of the user, and code that behaves differently when it is checked cannot be excluded."
    )
