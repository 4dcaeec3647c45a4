"""The log of a training run in the format of another program: what every such format has in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Point:
    """Numbers by name, such as "validation/loss", after one step."""

    step: int
    time: float  # seconds since 1970
    values: dict[str, float]


class RunLog(ABC):
    """The log of one run. Nothing is written before `begin`.

    `begin` replaces what an earlier process has written: a run that is resumed has no point twice.
    """

    title: str  # the name of the other program

    def __init__(self, folder: Path, experiment: str, settings: Mapping[str, Any]) -> None:
        self.folder, self.experiment, self.settings = folder, experiment, settings

    @property
    @abstractmethod
    def place(self) -> Path:
        """Where the log is."""

    @property
    @abstractmethod
    def command(self) -> str:
        """The shell command that shows the log."""

    @abstractmethod
    def begin(self, points: Sequence[Point]) -> None:
        """Write the settings and exactly these points."""

    @abstractmethod
    def add(self, point: Point) -> None:
        """Write one more point."""

    @abstractmethod
    def finish(self, point: Point, paths: Sequence[Path]) -> None:
        """Write the final results and these files: figures and text."""

    @abstractmethod
    def stop(self, *, failed: bool) -> None:
        """Note that training has stopped before its end, by an error or by the user."""
