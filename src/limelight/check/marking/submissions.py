"""Who has submitted which files: plain files and folders, and downloads of Moodle, Canvas and Gradescope."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from limelight.check.isolation.parent import python_files
from limelight.check.isolation.sources import NOTEBOOK
from limelight.errors import WrongInput

# "Ada Lovelace_123_assignsubmission_file_" is a folder, or the beginning of a file name.
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_file(_(?P<file>.*))?")
# "lovelaceada_late_123_456_homework.py"
CANVAS = re.compile(r"(?P<name>[^_]+)_(late_)?(?P<id>\d+)_\d+_(?P<file>.+)", re.IGNORECASE)
GRADESCOPE = re.compile(r"submission_\d+")
METADATA = "submission_metadata.yml"  # of Gradescope
LARGEST_FILE = 64 << 20  # bytes; larger files, such as data and weights, are ignored
IGNORED = {"__MACOSX", "__pycache__", METADATA}


@dataclass
class Submission:
    """The files of one student."""

    name: str
    identifier: str = ""  # the number that the learning platform gives
    files: dict[str, Path] = field(default_factory=dict)  # all files, by the path that they get in the copy
    key: str = ""  # a file name that is unique in the class

    @property
    def code(self) -> list[str]:
        """The paths of the Python files and notebooks."""
        return sorted(name for name in self.files if name.endswith((".py", NOTEBOOK)))


def find_submissions(path: Path) -> list[Submission]:
    """All submissions in a folder, ordered by name; a file is one submission."""
    if not path.exists():
        raise WrongInput(f"{path}: there is no such file or folder")
    entries = [path] if path.is_file() else sorted(path.iterdir())
    names = _gradescope_names(path / METADATA)
    found: dict[tuple[str, str], Submission] = {}
    for entry in entries:
        if entry.name.startswith(".") or entry.name in IGNORED or entry.is_symlink():
            continue
        one = (
            _from_folder(entry, names) if entry.is_dir() else _from_file(entry) if _is_plain(entry) else None
        )
        if one is not None:
            found.setdefault((one.name, one.identifier), one).files.update(one.files)
    if not any(one.code for one in found.values()):
        raise WrongInput(f"{path}: there is no submission with a Python file (.py) or a notebook (.ipynb)")
    ordered = sorted(found.values(), key=lambda one: (one.name.casefold(), one.name, one.identifier))
    _add_keys(ordered)
    return ordered


def _from_folder(folder: Path, names: dict[str, str]) -> Submission:
    name = _text(folder.name)
    if moodle := MOODLE.fullmatch(name):
        one = Submission(moodle["name"], moodle["id"])
    else:
        number = name.removeprefix("submission_") if GRADESCOPE.fullmatch(name) else ""
        one = Submission(names.get(name, name), number)
    code = set(python_files(folder))
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        is_hidden = any(part.startswith(".") or part in IGNORED for part in parts)
        is_wanted = file in code or file.suffix not in (".py", NOTEBOOK)
        if is_wanted and not is_hidden and _is_plain(file):
            one.files[_text("/".join(parts))] = file
    return one


def _text(name: str) -> str:
    """A file name as text: names of old archives may contain bytes that are not UTF-8."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _is_plain(file: Path) -> bool:
    """Whether it is a file, no link, and not too large to be copied."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size <= LARGEST_FILE


def _from_file(file: Path) -> Submission | None:
    name = _text(file.name)
    known = MOODLE.fullmatch(name) or CANVAS.fullmatch(name)
    if known and known["file"]:
        return Submission(known["name"], known["id"], {known["file"]: file})
    if file.suffix in (".py", NOTEBOOK):
        return Submission(name.removesuffix(file.suffix), files={name: file})
    return None


def _gradescope_names(metadata: Path) -> dict[str, str]:
    """The names of the submitters of each folder; only the lines with names are read."""
    if not metadata.is_file():
        return {}
    names: dict[str, list[str]] = {}
    folder = ""
    for line in metadata.read_text("utf-8", errors="replace").splitlines():
        if match := re.match(r"(submission_\d+):", line):
            folder = match[1]
        elif folder and (match := re.match(r"  ?(?:  )?- :name: (.*)", line)):
            names.setdefault(folder, []).append(match[1].strip().strip("'\""))
    return {folder: ", ".join(several) for folder, several in names.items()}


def _add_keys(submissions: list[Submission]) -> None:
    """Unique names of folders, without characters that are special on any system."""
    taken: set[str] = set()
    for one in submissions:
        key = re.sub(r"[^\w -]+", "_", one.name)[:60].strip(" _") or "submission"
        if one.identifier:
            key = f"{key}_{one.identifier}"
        number = 1
        while (unique := key if number == 1 else f"{key}-{number}").casefold() in taken:
            number += 1
        taken.add(unique.casefold())
        one.key = unique
