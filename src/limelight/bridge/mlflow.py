"""Runs in the file store of MLflow: a folder for each experiment, and in it one for each run.

    mlruns/EXPERIMENT/RUN/meta.yaml, metrics/NAME, params/NAME, tags/NAME, artifacts/

Everything is text, so that neither writing nor reading needs the package of MLflow.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from limelight.bridge.run_log import Point, RunLog
from limelight.errors import WrongInput, wrong

DEFAULT, DATABASE, META, TRASH = "mlruns", "mlflow.db", "meta.yaml", ".trash"
RUN_ID = "mlflow-run-id"  # the file in a run folder with the id of its run in MLflow
RUNNING, FINISHED, FAILED, KILLED = 1, 3, 4, 5  # the status of a run
LOCAL = 4  # the type of a source
LONGEST = 6000  # characters of a parameter


class Log(RunLog):
    """The files of one run. Its id is kept in the run folder, for a process that resumes it."""

    title = "MLflow"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.store = find_store()
        for meta in (self.store / TRASH).glob(f"*/{META}"):
            if read_meta(meta).get("name") == self.experiment:
                raise WrongInput(f"the experiment {self.experiment} was deleted in MLflow; restore it there")

    @property
    def place(self) -> Path:
        """The folder of all runs."""
        return self.store

    @property
    def command(self) -> str:
        """Shows all runs; MLflow 3 reads folders of runs only if it is told to."""
        return f"MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {shlex.quote(str(self.store))}"

    def begin(self, points: Sequence[Point]) -> None:
        """Create the run, or write the numbers of an earlier process again."""
        self._run = self._find_run() or self._new_run()
        known = read_meta(self._run / META) if (self._run / META).is_file() else {}
        first = points[0].time if points else time.time()
        self._start = int(known.get("start_time", 1000 * first))
        shutil.rmtree(self._run / "metrics", ignore_errors=True)
        for part in ("metrics", "params", "tags", "artifacts"):
            (self._run / part).mkdir(parents=True, exist_ok=True)
        for name, value in self.settings.items():
            text = value if isinstance(value, str) else json.dumps(value)
            _write(self._run / "params" / _key(name), text[:LONGEST])
        tags = {
            "mlflow.runName": self.folder.name,
            "mlflow.source.name": "limelight",
            "mlflow.source.type": "LOCAL",
            "mlflow.note.content": str(self.settings.get("about", "")),
            "limelight.folder": str(self.folder.absolute()),
        }
        for name, text in tags.items():
            _write(self._run / "tags" / name, text)
        self._write_status(RUNNING)
        for point in points:
            self.add(point)

    def add(self, point: Point) -> None:
        """Append one line to the file of each number."""
        for name, value in point.values.items():
            path = self._run / "metrics" / _key(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(f"{1000 * point.time:.0f} {value} {point.step}\n")

    def finish(self, point: Point, paths: Sequence[Path]) -> None:
        """Write the results, and copy the files to the artifacts."""
        self.add(point)
        for path in paths:
            shutil.copyfile(path, self._run / "artifacts" / path.name)
        self._write_status(FINISHED)

    def stop(self, *, failed: bool) -> None:
        """Note the end of the run."""
        self._write_status(FAILED if failed else KILLED)

    def _find_run(self) -> Path | None:
        """The folder that an earlier process has created for this run."""
        noted = self.folder / RUN_ID
        run_id = noted.read_text(encoding="utf-8").strip() if noted.is_file() else ""
        found = self.store.glob(f"*/{run_id}/{META}") if re.fullmatch(r"[0-9a-f]{32}", run_id) else ()
        return next((meta.parent for meta in found), None)

    def _new_run(self) -> Path:
        if not self.store.exists():  # as MLflow does, which expects this experiment
            _create_experiment(self.store / "0", "Default")
        run_id = uuid.uuid4().hex
        _write(self.folder / RUN_ID, f"{run_id}\n")
        return self._experiment() / run_id

    def _experiment(self) -> Path:
        """The folder of the experiment with the name of the recipe.

        Its id follows from the name, so that two processes that start at the same time create one folder.
        """
        digest = hashlib.sha256(self.experiment.encode()).hexdigest()
        number = 10**17 + int(digest, 16) % 10**17
        while True:
            for meta in self.store.glob(f"[0-9]*/{META}"):
                if read_meta(meta).get("name") == self.experiment:
                    return meta.parent
            if not (self.store / TRASH / str(number)).exists():
                _create_experiment(self.store / str(number), self.experiment)
            number += 1  # for the case that an experiment with this id was renamed

    def _write_status(self, status: int) -> None:
        values: dict[str, Any] = {
            "artifact_uri": (self._run / "artifacts").absolute().as_uri(),
            "end_time": None if status == RUNNING else int(1000 * time.time()),
            "entry_point_name": "",
            "experiment_id": self._run.parent.name,
            "lifecycle_stage": "active",
            "run_id": self._run.name,
            "run_name": self.folder.name,
            "run_uuid": self._run.name,
            "source_name": "",
            "source_type": LOCAL,
            "source_version": "",
            "start_time": self._start,
            "status": status,
            "tags": [],
            "user_id": "",
        }
        _write_meta(self._run / META, values)


def find_store() -> Path:
    """The folder of MLFLOW_TRACKING_URI, or `mlruns`."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        # MLflow uses its database here unless it finds runs in `mlruns`, and would then no longer do so.
        if Path(DATABASE).exists() and not any(Path(DEFAULT).glob(f"[0-9]*/{META}")):
            hint = "set MLFLOW_TRACKING_URI to a folder for the runs"
            raise WrongInput(f"--log mlflow writes folders, but MLflow uses {DATABASE} here; {hint}")
        return Path(DEFAULT)
    scheme = urlsplit(uri).scheme
    if scheme == "file":
        return Path(url2pathname(urlsplit(uri).path))
    if len(scheme) > 1 or uri in ("databricks", "databricks-uc", "uc"):  # one letter is a drive of Windows
        shown = f"{scheme}:…" if scheme else uri  # the rest may contain a password
        raise wrong("MLFLOW_TRACKING_URI", repr(shown), "a folder, or the file: URI of one")
    return Path(uri)


def read_meta(path: Path) -> dict[str, str]:
    """The simple values of a file of MLflow; the names of our experiments are simple."""
    pairs = (line.partition(": ") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {key: value.strip().strip("'\"") for key, _, value in pairs}


def _create_experiment(folder: Path, name: str) -> None:
    """Create the folder of an experiment; it appears complete. A folder that exists is not changed."""
    now = int(1000 * time.time())
    values = {
        "artifact_location": folder.absolute().as_uri(),
        "creation_time": now,
        "experiment_id": folder.name,
        "last_update_time": now,
        "lifecycle_stage": "active",
        "name": name,
    }
    unfinished = folder.with_name(f".{uuid.uuid4().hex}")
    unfinished.mkdir(parents=True)
    _write_meta(unfinished / META, values)
    try:
        unfinished.rename(folder)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not folder.exists():
            raise


def _write_meta(path: Path, values: dict[str, Any]) -> None:
    """Write YAML, of which JSON is a part; the file appears complete."""
    text = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    unfinished = path.with_name(f".{uuid.uuid4().hex}")
    _write(unfinished, text)
    unfinished.replace(path)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _key(name: str) -> str:
    """A name that MLflow accepts and that is a path on every system."""
    return re.sub(r"[^\w. /-]", "_", name)
