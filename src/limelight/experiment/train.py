"""Train an experiment: seed -> task and data -> model -> Trainer -> report and figures."""

import json
import os
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from limelight.config import differences, flatten
from limelight.data.dataset import Dataset
from limelight.errors import Stopped, WrongInput
from limelight.experiment.build import COPIES, build_model, check_step
from limelight.experiment.config import FILE, Experiment, experiment, settings_of
from limelight.experiment.devices import choose
from limelight.experiment.figures import run_figures
from limelight.experiment.logs import Logs, open_logs
from limelight.experiment.plugins import COPY
from limelight.experiment.run import Report, Run
from limelight.experiment.start import find_start, load, resolve
from limelight.invocation import program
from limelight.openmp import adaptive_spinning
from limelight.progress import track
from limelight.randomness import derive
from limelight.tasks.metrics import Judgement
from limelight.training import files
from limelight.training.distributed import World, first_process, joined
from limelight.training.folder import CHECKPOINTS, JOURNAL, Progress, RunFolder
from limelight.training.lock import LOCK, locked
from limelight.training.loop import SETTINGS, Trainer, another_run
from limelight.training.memory import keep_memory
from limelight.training.progress import Together, Watcher


def train(
    recipe: str | Path,
    settings: dict[str, Any] | None = None,
    out: str | Path | None = None,
    *,
    data: str | Path | None = None,
    start: str | Path | None = None,
    resume: bool = False,
    inexact: bool = False,
    device: str = "auto",
    compiled: bool = False,
    log: str | Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Run:
    """Train a recipe, a TOML file, a plug-in or (to resume) a run folder, with some settings changed.

        run = limelight.train("reverse", {"train.epochs": 1}, out="runs/mine")
        run.predict(["3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3"])

    `start` is the folder of another run, whose weights and vocabulary training starts from:

        run = limelight.train("text", data="new.csv", start="runs/text", out="runs/new")

    `log` also writes the metrics for other programs: "tensorboard", "mlflow", or both.

    Under torchrun every process returns the run, and the first one writes its report and figures.
    """
    chosen = choose(device)
    with torch.random.fork_rng(devices=[]):  # opening a run makes a model
        wanted, source = resolve(recipe, settings or {}, data, start)
    again = Path(recipe) if (Path(recipe) / FILE).is_file() else None
    folder = Path(out) if out else again or Path("runs") / wanted.name
    first = first_process()
    watcher = watcher if watcher and first else Watcher()
    logs = Logs(open_logs(log, folder, wanted), folder, wanted.train, watcher.note)
    keep_memory()
    with adaptive_spinning(), torch.random.fork_rng(devices=[]):
        source = source or find_start(wanted, folder)
        torch.manual_seed(derive(wanted.seed, "weights"))  # before the weights are initialised
        with watcher.phase("loading the data"):
            task, dataset = load(wanted, source)
        model = build_model(wanted.model, task.sizes, copies=COPIES)
        notes = [*dataset.notes, *(source.take(model, wanted.model) if source else ())]
        if chosen.type == "cpu":
            check_step(wanted, task, dataset, model, int(os.environ.get("WORLD_SIZE", "1")))
        with locked(folder) if first else nullcontext() as lock, logs.closing():
            if first:
                _check_folder(wanted, folder, resume, inexact)
            with joined(chosen) as world:
                trainer = Trainer(
                    wanted.train,
                    task,
                    dataset,
                    model,
                    RunFolder(folder, lock),
                    seed=wanted.seed,
                    world=world,
                    environment=_environment(world, dataset, wanted, compiled),
                    compiled=compiled,
                    watcher=Together(watcher, logs),
                )
                for note in notes:
                    watcher.note(note)
                progress = _fit(trainer, wanted, resume, inexact)
            run = Run(folder, world.device, dataset)
            if first:
                _finish(run, progress, trainer.folder, watcher, logs)
            return run


def _fit(trainer: Trainer, wanted: Experiment, resume: bool, inexact: bool) -> Progress:
    if resume:
        trainer.resume(inexact=inexact)
    if trainer.world.first:
        trainer.folder.check_held()
        if wanted.start:  # before the experiment: with it, the run can be resumed without its source
            trainer.save()
        _write_experiment(wanted, trainer.folder.path)
    try:
        progress = trainer.fit()
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        why = str(error).strip().split("\n")[0]
        raise Stopped(f"torch.compile failed: {why}; train without --compile") from error
    if progress.step < trainer.total:
        trainer.watcher.note(f"ended after step {progress.step} of {trainer.total}: {trainer.ending}")
    return progress


def _write_experiment(wanted: Experiment, folder: Path) -> None:
    """Write the resolved experiment, and a copy of its plug-in; remove what a killed process left."""
    for place in (folder, folder / CHECKPOINTS):
        files.remove_unfinished(place)
    if wanted.plugin:
        files.replace(folder / COPY, Path(wanted.plugin).read_bytes())
        wanted = wanted.model_copy(update={"plugin": COPY})
    files.replace(folder / FILE, wanted.to_toml().encode())


def _check_folder(wanted: Experiment, folder: Path, resume: bool, inexact: bool) -> None:
    """Refuse to overwrite a run, or to resume with other settings."""
    begun = (folder / FILE).is_file()
    if begun and not resume and settings_of(experiment(folder)) != settings_of(wanted):
        raise WrongInput(f"{folder} contains a run with other settings; choose another folder with --out")
    if begun and not resume:
        command = f"{program()} train {shlex.quote(str(folder))} --resume"
        again = f"resume it with `{command}`, or choose another folder with --out"
        raise WrongInput(f"{folder} already contains a run: {again}")
    if not begun and not all(map(_is_remnant, folder.iterdir())):
        raise WrongInput(f"{folder} is not empty and contains no run; choose another folder with --out")
    if begun and not inexact:
        different = differences(*(flatten(settings_of(one)) for one in (experiment(folder), wanted)))
        if different:
            raise another_run(different)


def _is_remnant(path: Path) -> bool:
    """Whether a process that was killed before it wrote the experiment may have left this."""
    if path.name == JOURNAL:
        return path.stat().st_size == 0
    if path.name == CHECKPOINTS:
        return all(one.name.startswith(("step-00000000", files.UNFINISHED)) for one in path.iterdir())
    return path.name == LOCK or path.name.startswith(files.UNFINISHED)


def _environment(world: World, dataset: Dataset[Any], wanted: Experiment, compiled: bool) -> dict[str, Any]:
    """Everything that can change the bits of a result."""
    return {
        "limelight": version("limelight"),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "processes": world.size,
        "device": world.device.type,
        "compiled": compiled,
        "data": dataset.digest,
        SETTINGS: settings_of(wanted),
    }


def _finish(run: Run, progress: Progress, folder: RunFolder, watcher: Watcher, logs: Logs) -> None:
    """Write the report and the figures of the best weights, also to the logs."""
    judged = [split for split in ("validation", "test") if split in run.dataset.splits]
    judgements = dict[str, Judgement]()
    for split in judged:
        with watcher.phase(f"evaluating the best weights on the {split} split"):
            judgements[split] = run.judge(split)
            baseline = run.task.baseline(run.dataset, split) if split == judged[-1] else None
    report = Report(
        experiment=run.experiment.name,
        data=run.dataset.notes,
        start=run.experiment.start,
        start_digest=run.experiment.start_digest,
        metrics={split: judgement.values for split, judgement in judgements.items()},
        signatures=judgements[judged[-1]].signatures,
        baseline=baseline,
        classes={name: asdict(one) for name, one in judgements[judged[-1]].classes.items()},
        confusion=judgements[judged[-1]].confusion,
        steps=progress.step,
        best_step=progress.best_step,
        seconds=round(progress.seconds, 2),
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
    )
    folder.check_held()
    files.replace(run.path / "report.json", json.dumps(report.model_dump(), indent=2).encode() + b"\n")
    with watcher.phase("drawing the figures"):
        figures = run_figures(run)
        for name, figure in track(figures.items(), len(figures)):
            figure.savefig(run.path / f"{name}.png", dpi=150)
    logs.finish(report, [run.path / f"{name}.png" for name in figures])
