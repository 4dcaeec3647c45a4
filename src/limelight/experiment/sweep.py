"""Train a grid of settings, one run after the other, and compare the runs."""

import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from limelight.errors import Diverged, WrongInput
from limelight.experiment.build import COPIES, build_model
from limelight.experiment.compare import compare
from limelight.experiment.comparison import Comparison
from limelight.experiment.config import FILE, Experiment, experiment
from limelight.experiment.devices import choose
from limelight.experiment.grid import Sweep, check_grid, read_sweep
from limelight.experiment.logs import log_modules
from limelight.experiment.start import Start, load, resolve
from limelight.experiment.train import train
from limelight.invocation import program
from limelight.models.sizes import Sizes
from limelight.training import files
from limelight.training.interrupt import Interrupted
from limelight.training.lock import LOCK, locked
from limelight.training.progress import Watcher

PAGE = "comparison.html"


def sweep(
    recipe: str | Path,
    grid: Mapping[str, Sequence[Any]] | None = None,
    out: str | Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    seeds: int = 1,
    data: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    log: str | Sequence[str] = (),
    make_watcher: Callable[[], Watcher] = Watcher,
) -> Comparison:
    """Train each combination of the values of a grid with each seed, and compare the runs.

        limelight.sweep("reverse", {"model.heads": [1, 2, 4]}, "sweeps/heads", seeds=3)

    Each run is a run folder in `out`. A sweep that was interrupted goes on with `resume`; finished runs are
    not trained again. If the loss of a run is no longer finite, the other runs are trained nevertheless.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise WrongInput("a sweep runs in a single process; start it without torchrun")
    choose(device)
    log_modules(log)
    changed = dict(settings or {})
    again = read_sweep(Path(recipe))
    if again is not None and (grid or changed or seeds > 1 or data or out):
        raise WrongInput(f"{recipe} is a sweep; its settings cannot be changed: give only --resume")
    plan = again or _plan(recipe, grid or {}, changed, seeds, data)
    folder = Path(recipe) if again else Path(out or Path("sweeps") / plan.recipe["name"])
    with locked(folder):
        begun = _check_folder(folder, plan, resume)
        if begun is None:
            _check_runs(plan, recipe, changed, data, make_watcher())
        plan = begun or plan
        plan.write(folder)
        _train_all(plan, folder, device, log, make_watcher)
        make_watcher().note("comparing the runs")
        return compare(folder, out=folder / PAGE, device=device)


def _plan(
    recipe: str | Path,
    grid: Mapping[str, Sequence[Any]],
    settings: dict[str, Any],
    seeds: int,
    data: str | Path | None,
) -> Sweep:
    """The sweep of a grid; settings that are not in the recipe keep their defaults."""
    check_grid(grid, seeds)
    first = {key: values[0] for key, values in grid.items()}
    made = experiment(recipe, settings | first, data)
    values = made.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return Sweep(recipe=values, grid={key: list(values) for key, values in grid.items()}, seeds=seeds)


def _check_folder(folder: Path, plan: Sweep, resume: bool) -> Sweep | None:
    """The sweep that the folder contains, if it has begun; refused unless the same one is resumed."""
    files.remove_unfinished(folder)
    begun = read_sweep(folder)
    if begun is None and [path for path in folder.iterdir() if path.name != LOCK]:
        raise WrongInput(f"{folder} is not empty and contains no sweep; choose another folder with --out")
    if begun is not None and not begun.is_like(plan):
        raise WrongInput(f"{folder} contains a sweep with other settings; choose another folder with --out")
    if begun is not None and not resume:
        again = f"resume it with `{_command(folder)}`, or choose another folder with --out"
        raise WrongInput(f"{folder} already contains a sweep: {again}")
    return begun


def _check_runs(
    plan: Sweep, recipe: str | Path, settings: dict[str, Any], data: str | Path | None, watcher: Watcher
) -> None:
    """Refuse settings of any run before the first one is trained. Each different model is built once."""
    with torch.random.fork_rng(devices=[]):
        found = [resolve(recipe, settings | point, data, None) for point in plan.runs.values()]
        tasks, models = dict[str, Sizes](), set[tuple[str, str]]()
        for wanted, start in found:
            task, model = wanted.task.model_dump_json(), wanted.model.model_dump_json()
            if (task, model) in models:
                continue
            if task not in tasks:
                with watcher.phase("loading the data"):
                    tasks[task] = _sizes(wanted, start)
            build_model(wanted.model, tasks[task], copies=COPIES)
            models.add((task, model))


def _sizes(wanted: Experiment, start: Start | None) -> Sizes:
    return load(wanted, start)[0].sizes


def _train_all(
    plan: Sweep, folder: Path, device: str, log: str | Sequence[str], make_watcher: Callable[[], Watcher]
) -> None:
    """Train the runs that are not finished, and note in the folder which ones are."""
    recipe = plan.write_recipe(folder)
    for number, (name, point) in enumerate(plan.runs.items(), 1):
        path, watcher = folder / name, make_watcher()
        where = f"run {number} of {len(plan.runs)}, {name}"
        if name in plan.finished and (path / "report.json").is_file():
            watcher.note(f"{where}: finished")
            continue
        watcher.note(where)
        begun = (path / FILE).is_file()
        try:
            train(recipe, point, path, resume=begun, device=device, log=log, watcher=watcher)
        except Diverged as error:
            watcher.note(f"{where} stopped: {error}")
            continue
        except (Interrupted, KeyboardInterrupt) as stop:
            code = stop.number if isinstance(stop, Interrupted) else signal.SIGINT
            raise Interrupted(code, f"stopped in {where}; resume with: {_command(folder)}") from None
        finished = [one for one in plan.runs if one in {*plan.finished, name}]
        plan = plan.model_copy(update={"finished": finished})
        plan.write(folder)


def _command(folder: Path) -> str:
    return f"{program()} sweep {shlex.quote(str(folder))} --resume"
