"""A pre-trained model of another library as a run."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import torch

from limelight.bridge.huggingface import Imported, read_model
from limelight.errors import WrongInput
from limelight.experiment.build import build_model
from limelight.experiment.config import FILE, Experiment, experiment_type, settings_of
from limelight.experiment.run import Report, Run, open_run
from limelight.training import files
from limelight.training.folder import Progress, RunFolder, Saved
from limelight.training.lock import locked
from limelight.training.loop import SETTINGS
from limelight.training.progress import Watcher
from limelight.training.weights import load_weights, weights_of


def import_model(
    source: str | Path, out: str | Path | None = None, *, task: str = "", watcher: Watcher | None = None
) -> Run:
    """Read a pre-trained model from a folder of Hugging Face, and write it as a run.

        run = limelight.import_model("minilm", out="runs/minilm")
        run.see("The sky is blue.")

    `source` is a folder with config.json and model.safetensors, or the name of an installed package of a
    model. The task follows from the architecture; `task` chooses another one that its weights allow.
    """
    watcher = watcher or Watcher()
    with watcher.phase(f"reading {source}"):
        found = read_model(source, task)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(source).absolute().name).strip("-._") or "imported"
    folder = Path(out) if out else Path("runs") / name
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise WrongInput(f"{folder} is not empty; choose another folder with --out")
    experiment = experiment_type()(
        name=name,
        about=f"pre-trained model, imported from {Path(source).name}",
        imported=str(source),
        task=found.task,
        model=found.model,
    )
    with torch.random.fork_rng(devices=[]):  # the random weights of a new model
        model = build_model(experiment.model, experiment.task.restore(found.state).sizes, copies=2)
    load_weights(model, found.weights)
    settings = settings_of(experiment)
    saved = Saved(
        weights=weights_of(model),
        training={},
        data=found.state,
        progress=Progress(),
        environment={"limelight": version("limelight"), "torch": str(torch.__version__), SETTINGS: settings},
    )
    with locked(folder) as lock:
        RunFolder(folder, lock).save(0, saved)
        files.replace(folder / "report.json", json.dumps(_report(experiment, found), indent=2).encode())
        files.replace(folder / FILE, experiment.to_toml().encode())
    for note in found.notes:
        watcher.note(note)
    return open_run(folder, device="cpu")


def _report(experiment: Experiment, found: Imported) -> dict[str, object]:
    report = Report(
        experiment=experiment.name,
        data=found.notes,
        metrics={},
        signatures={},
        steps=0,
        best_step=0,
        seconds=0.0,
        parameters=sum(weight.numel() for weight in found.weights.values()),
    )
    return report.model_dump()
