"""Event files for TensorBoard, in the folder `tensorboard` of a run."""

import json
import shlex
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.record_writer import RecordWriter

from limelight.bridge.run_log import Point, RunLog

RGBA = 4  # the code of a PNG file with four channels


class Log(RunLog):
    """One file with scalars, hyper-parameters and images. It is open only while something is appended."""

    title = "TensorBoard"

    @property
    def place(self) -> Path:
        """A folder in the run folder, so that the path of the run is its name in TensorBoard."""
        return self.folder / "tensorboard"

    @property
    def command(self) -> str:
        """Shows all runs beside this one."""
        beside = self.folder.parent
        return f"tensorboard --logdir {shlex.quote(str(beside if beside.name else self.folder))}"

    def begin(self, points: Sequence[Point]) -> None:
        """Write a new file and empty the older one; a TensorBoard that shows it drops its points."""
        start = points[0].time if points else time.time()
        session = SessionStartInfo(start_time_secs=start)
        for name, value in self.settings.items():
            _set_value(session.hparams[name], value)
        self.place.mkdir(parents=True, exist_ok=True)
        unfinished = self.place / ".unfinished"
        unfinished.unlink(missing_ok=True)
        _append(
            unfinished,
            Event(wall_time=start, file_version="brain.Event:2"),
            Event(wall_time=start, step=0, session_log=SessionLog(status=SessionLog.START)),
            _hparams(start, metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=session)),
            *map(_scalars, points),
        )
        for old in self.place.glob("*tfevents*"):
            if old.stat().st_size:
                old.write_bytes(b"")  # a TensorBoard that is at its end goes on; without it, it would stop
            else:
                old.unlink()
        # TensorBoard reads the files of a folder in the order of their names.
        self._file = self.place / f"events.out.tfevents.{time.time():.6f}.limelight"
        unfinished.replace(self._file)

    def add(self, point: Point) -> None:
        """Append the scalars of a point."""
        _append(self._file, _scalars(point))

    def finish(self, point: Point, paths: Sequence[Path]) -> None:
        """Append the results and the PNG files among the paths."""
        images = [_image(path) for path in paths if path.suffix == ".png"]
        _append(
            self._file,
            _scalars(point),
            Event(wall_time=point.time, step=point.step, summary=Summary(value=images)),
        )
        self._end(api_pb2.STATUS_SUCCESS)

    def stop(self, *, failed: bool) -> None:
        """Append the end of the session."""
        self._end(api_pb2.STATUS_FAILURE if failed else api_pb2.STATUS_UNKNOWN)

    def _end(self, status: int) -> None:
        now = time.time()
        session = SessionEndInfo(status=status, end_time_secs=now)
        data = HParamsPluginData(session_end_info=session)
        _append(self._file, _hparams(now, metadata.SESSION_END_INFO_TAG, data))


def _append(path: Path, *events: Any) -> None:
    """Append events to a file."""
    with path.open("ab") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())


def _scalars(point: Point) -> Any:
    values = [Summary.Value(tag=name, simple_value=value) for name, value in point.values.items()]
    return Event(wall_time=point.time, step=point.step, summary=Summary(value=values))


def _image(path: Path) -> Any:
    """A PNG file, as it is; its size is in its first chunk."""
    content = path.read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    image = Summary.Image(width=width, height=height, colorspace=RGBA, encoded_image_string=content)
    return Summary.Value(tag=f"figures/{path.stem}", image=image)


def _hparams(wall_time: float, tag: str, data: Any) -> Any:
    value = Summary.Value(
        tag=tag, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR
    )
    return Event(wall_time=wall_time, step=0, summary=Summary(value=[value]))


def _set_value(place: Any, value: Any) -> None:
    """TensorBoard has truth values, numbers and text; everything else is written as JSON."""
    if isinstance(value, bool):
        place.bool_value = value
    elif isinstance(value, int | float):
        place.number_value = value
    else:
        place.string_value = value if isinstance(value, str) else json.dumps(value)
