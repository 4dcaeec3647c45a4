"""Logs, read with the libraries of TensorBoard and MLflow."""

import io
import os
import re
from pathlib import Path

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import SessionStartInfo

os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
from mlflow import MlflowClient
from mlflow.entities import Run

Scalars = dict[str, list[tuple[int, float]]]  # (step, value) by name
# Two runs with the same settings differ in what is measured with a clock.
MEASURED = re.compile(r"seconds|per_second")


def accumulator(run: Path) -> EventAccumulator:
    """The reader of TensorBoard; it keeps all points."""
    return EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "images": 0}).Reload()


def tensorboard_scalars(run: Path) -> Scalars:
    return scalars_of(accumulator(run))


def scalars_of(found: EventAccumulator) -> Scalars:
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def images(run: Path) -> dict[str, Image.Image]:
    found = accumulator(run)
    pictures = dict[str, Image.Image]()
    for tag in found.Tags()["images"]:
        (event,) = found.Images(tag)
        pictures[tag] = Image.open(io.BytesIO(event.encoded_image_string))
        pictures[tag].load()
        assert pictures[tag].size == (event.width, event.height)
    return pictures


def hyper_parameters(run: Path) -> SessionStartInfo:
    content = accumulator(run).PluginTagToContent(metadata.PLUGIN_NAME)
    return metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])


def client(store: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=store.as_uri())


def mlflow_runs(store: Path, experiment: str = "majority") -> dict[str, Run]:
    """The runs of an experiment by name."""
    reader = client(store)
    found = reader.get_experiment_by_name(experiment)
    assert found is not None
    return {str(run.info.run_name): run for run in reader.search_runs([found.experiment_id])}


def mlflow_scalars(store: Path, name: str, experiment: str = "majority") -> Scalars:
    run = mlflow_runs(store, experiment)[name]
    return {
        key: [(one.step, one.value) for one in client(store).get_metric_history(run.info.run_id, key)]
        for key in run.data.metrics
    }


def check_same(scalars: Scalars, expected: Scalars) -> None:
    """The same points in the same order; of what is measured with a clock, at the same steps."""
    assert scalars.keys() == expected.keys()
    for name, points in expected.items():
        if MEASURED.search(name):
            assert [step for step, _ in scalars[name]] == [step for step, _ in points], name
        else:
            assert scalars[name] == points, name
