"""The command line: one function a verb. Imports late, so that `--help` does not wait for torch."""

import io
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from limelight import __version__
from limelight.errors import Stopped, WrongInput
from limelight.openmp import adaptive_spinning
from limelight.training.interrupt import STOPPING, Interrupted

if TYPE_CHECKING:
    from limelight.tasks.task import Answer


app = App(
    name="limelight",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="""Build, check, train and see Transformers.

Begin with `limelight train reverse`.
""",
)


@app.command
def recipes() -> None:
    """What can be trained, with one line each.

    Example: limelight recipes
    """
    from limelight.experiment.config import recipes

    found = recipes()
    width = max(map(len, found))
    for name, about in found.items():
        print(f"{name:{width}}  {about}")


@app.command
def train(
    recipe: str,
    *,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    data: Path | None = None,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    allow_inexact: Annotated[bool, Parameter(negative="")] = False,
    device: str = "auto",
    compiled: Annotated[bool, Parameter(name="--compile", negative="")] = False,
) -> None:
    """Train a recipe, and see what it learned.

    Example: limelight train reverse --set model.heads=2 --set train.epochs=3 --out runs/two-heads

    Parameters
    ----------
    recipe
        The name of a recipe (see `limelight recipes`), a TOML file of your own, or a run folder to resume.
    settings
        Change a setting: KEY=VALUE, as in train.rate=1e-3; as often as you like.
    data
        A file or a folder of your own, for the recipes that read one.
    out
        The run folder; runs/RECIPE unless named.
    resume
        Go on from the newest checkpoint of the run folder, to the same bits as if nothing had happened.
    allow_inexact
        Resume even though settings, versions or threads are no longer the same; the data must be, and what is
        trained must fit.
    device
        auto, cpu, cuda or mps.
    compiled
        Let torch.compile have the model; it pays on GPUs.
    """
    from limelight.experiment import train
    from limelight.experiment.config import setting
    from limelight.terminal import show_report
    from limelight.training.progress import watcher

    run = train(
        recipe,
        dict(map(setting, settings)),
        out,
        data=data,
        resume=resume,
        inexact=allow_inexact,
        device=device,
        compiled=compiled,
        watcher=watcher(),
    )
    if run is not None:  # the first of many processes speaks for all
        show_report(run)


@app.command
def evaluate(
    run: Path,
    *,
    split: str | None = None,
    beam: int = 1,
    length_penalty: float = 1.0,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    device: str = "auto",
) -> None:
    """How good the best weights of a run are on one split of its data.

    Example: limelight evaluate runs/reverse --split validation --json

    Example: limelight evaluate runs/translate --beam 5

    Parameters
    ----------
    run
        A run folder.
    split
        train, validation or test; unless named, test, or validation where the data has no test split.
    beam
        Translations: how many beginnings are followed at once.
    length_penalty
        With --beam: beams are judged by log-probability / length^penalty; 0 likes short ones.
    as_json
        Every digit, for programs.
    device
        auto, cpu, cuda or mps.
    """
    from limelight.config import read
    from limelight.experiment import open_run
    from limelight.tasks.translate.search import Search
    from limelight.training.progress import show_metric

    search = read(Search, {"beam": beam, "length_penalty": length_penalty})
    opened = open_run(run, device=device)
    split = split or opened.held_out
    judged = opened.judge(split, search=None if search == Search() else search)
    if as_json:
        rules = {"signatures": judged.signatures} if judged.signatures else {}
        _print_json({"split": split, **judged.values, **rules})
        return
    for name, value in judged.values.items():
        signature = f"  ({judged.signatures[name]})" if name in judged.signatures else ""
        print(f"{split} {name} {show_metric(name, value)}{signature}")


@app.command
def predict(
    run: Path,
    *text: str,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    alignment: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    device: str = "auto",
) -> None:
    """What a trained model says: of arguments, of the lines of files, or of the lines on stdin.

    Example: limelight predict runs/reverse "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3"

    Example: limelight predict runs/brackets < lines.txt > answers.txt

    Example: limelight predict runs/translate --beam 4 "She does not wear her red shirt."

    Parameters
    ----------
    run
        A run folder.
    text
        Inputs; an argument that is the name of a file stands for its lines, of a CSV or TSV file for the
        column of texts that was trained on. Without any, stdin is read. Where images are classified, an
        input is the name of an image file.
    beam
        Translations: how many beginnings are followed at once; 4 unless named, 1 with a temperature.
    n_best
        Translations: as many lines per input, the best first, each after its log-probability and a tab.
    length_penalty
        With --beam: beams are judged by log-probability / length^penalty; 0 likes short ones.
    temperature
        Translations: draw each token by chance, the wilder the higher; 0 takes the most likely one.
    top_k
        Draw only from the k most likely tokens.
    top_p
        Draw only from the most likely tokens that make up this share of the probability.
    seed
        Of what is drawn by chance.
    alignment
        Translations: after a tab, which word comes from which, as 0-0 1-2: input word, output word.
    as_json
        One JSON object a line: input, answer, probability; others and alignment where asked for.
    device
        auto, cpu, cuda or mps.
    """
    from limelight.config import read
    from limelight.experiment import open_run
    from limelight.tasks.translate.search import Search
    from limelight.tasks.translate.task import SEARCH

    wanted = {
        "n_best": n_best,
        "length_penalty": length_penalty,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    if beam is not None or given:
        given["beam"] = beam if beam is not None else 1 if temperature else max(SEARCH.beam, n_best or 1)
    search = read(Search, given) if given else None
    opened = open_run(run, device=device)
    first = 1
    typed = not text and sys.stdin and sys.stdin.isatty()  # each line is answered at once, as each image is
    read_file = None if opened.reads_images else opened.lines_of
    for lines in _chunks(_inputs(text, read_file), 1 if typed or opened.reads_images else 1_000):
        answers = opened.predict(lines, first=first, search=search, alignment=alignment)
        for line, answer in zip(lines, answers, strict=True):
            _print_answer(line, answer, as_json=as_json)
        first += len(lines)


@app.command
def see(
    run: Path,
    given: str | None = None,
    *,
    out: Path | None = None,
    dark: Annotated[bool, Parameter(negative="")] = False,
    device: str = "auto",
) -> None:
    """What a trained model looks at, every layer and head: a page in one file, or a picture.

    Example: limelight see runs/translate "She does not wear her red shirt."

    Example: limelight see runs/digits seven.png --out seven-looks.png

    Parameters
    ----------
    run
        A run folder.
    given
        A line of text, or an image file; without it, held-out examples.
    out
        A page to explore: .html, which needs nothing else and no network. A picture: .png, .svg or .pdf
        (of a text the last 24 maps; of a translation, those of its words on the source). What was seen, for
        programs: .json. Unless named, report.html in the run folder.
    dark
        A picture on a dark ground (a page follows the browser).
    device
        auto, cpu, cuda or mps.
    """
    from limelight.experiment import open_run
    from limelight.experiment.pages import write_sight

    path = out or run / "report.html"
    write_sight(open_run(run, device=device), given, path, dark=dark)
    print(path)


@app.command
def serve(
    run: Path,
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = 8765,
    device: str = "auto",
) -> None:
    """A page on this machine: type, or drop an image, and see the prediction and the maps change.

    Example: limelight serve runs/translate

    Parameters
    ----------
    run
        A run folder.
    port
        Where the page is: http://127.0.0.1:PORT/, for nobody but this machine. 0: any that is free.
    device
        auto, cpu, cuda or mps.
    """
    from limelight.experiment import open_run
    from limelight.experiment.pages import about
    from limelight.view.server.app import serve as serve_page

    opened = open_run(run, device=device)
    serve_page(opened.look, about(opened), port)


@app.command
def explain(
    recipe: str,
    *,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    data: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """What a model is made of: each layer's shapes, parameters and cost.

    Example: limelight explain reverse --set model.heads=2

    Parameters
    ----------
    recipe
        The name of a recipe (see `limelight recipes`), a TOML file of your own, or a run folder.
    settings
        Change a setting: KEY=VALUE, as in model.heads=2; as often as you like.
    data
        A file or a folder of your own, for the recipes that read one.
    as_json
        One JSON object, for programs.
    """
    from dataclasses import asdict

    from limelight.experiment.config import setting
    from limelight.experiment.explain import explain_experiment
    from limelight.terminal import show_explanation

    explained = explain_experiment(recipe, dict(map(setting, settings)), data)
    if as_json:
        _print_json(asdict(explained) | {"totals": explained.totals})
        return
    show_explanation(explained)


@app.command
def check(
    path: str,
    *,
    kind: Annotated[str | None, Parameter(name="--as")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Try someone's attention code, and say what is wrong with it, with a counter-example.

    Every class and function that looks like a part of a Transformer is made, called on small inputs, and held
    against what such a part should keep. The code runs in a process of its own, with limits on time and
    memory; that is no sandbox: check only what you would run.

    Exit code 0: every promise kept. 1: something is broken. 2: something could not be checked.

    Example: limelight check attention.py

    Example: limelight check homework.ipynb

    Example: limelight check attention.py::MyAttention --as multi-head-attention

    Example: limelight check submissions/ --json > marks.json

    Parameters
    ----------
    path
        A Python file or a notebook, FILE.py::NAME for one class or function of it with what it is made of,
        or a folder.
    kind
        What it is, where its name does not tell: masked-softmax, multi-head-attention, encoder-block, ...
    as_json
        Every finding, for programs: one object a file and line.
    strict
        Warnings count as broken promises.
    """
    from rich.console import Console

    from limelight.check.format import show, summary
    from limelight.check.harness.argument_names import KINDS
    from limelight.check.isolation.parent import check_files
    from limelight.errors import unknown

    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    found = []
    for report in check_files(path, kind):
        found.append(report)
        if as_json:
            _print_json(report.model_dump())
        else:
            show(report, console)
    if not as_json:
        console.print(summary(found))
    codes = {report.exit_code(strict=strict) for report in found}
    if codes != {0}:
        sys.exit(1 if 1 in codes else 2)


def _inputs(arguments: tuple[str, ...], read_file: Callable[[Path], list[str]] | None) -> Iterator[str]:
    """Arguments, the lines of files, or those of stdin. Without `read_file`, files are inputs themselves."""
    from limelight.data.paths import check_regular

    for number, argument in enumerate(arguments, 1):
        if read_file is None:
            yield argument
            continue
        check_regular(Path(argument))
        if os.path.isfile(argument):
            yield from read_file(Path(argument))
        elif argument.isascii() or argument == argument.encode(errors="replace").decode():
            yield argument
        else:
            raise WrongInput(f"argument {number} is not UTF-8 text")
    if not arguments and sys.stdin:
        for number, line in enumerate(sys.stdin):
            yield line.removeprefix("" if number else "\ufeff").removesuffix("\n").removesuffix("\r")


def _chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """So that a filter answers before its input ends, and holds little of it."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _print_answer(line: str, answer: "Answer", *, as_json: bool) -> None:
    several = (answer, *answer.others)
    if as_json:
        best, *others = map(_describe, several)
        _print_json({"input": line} | best | ({"others": others} if others else {}))
        return
    for one in several:
        words = "".join(f" {source}-{target}" for source, target in one.alignment)
        before = f"{_log(one.probability):.3f}\t" if answer.others else ""
        print(f"{before}{one.text}" + (f"\t{words.strip()}" if words else ""))


def _describe(answer: "Answer") -> dict[str, Any]:
    content: dict[str, Any] = {"answer": answer.text, "probability": answer.probability}
    return content | ({"alignment": answer.alignment} if answer.alignment else {})


def _log(probability: float | None) -> float:
    return math.log(probability) if probability else -math.inf  # of many tokens it may be too small to hold


def _print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, ensure_ascii=False))


def main(arguments: list[str] | None = None) -> None:
    """Exit code 0: done. 1: it could not be done. 2: wrong input. 129, 130, 143: interrupted."""
    warnings.showwarning = _show_warning
    _end_on_signals()
    if isinstance(sys.stdin, io.TextIOWrapper):  # whatever the locale is
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets its code
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with adaptive_spinning():
            app(arguments, exit_on_error=False, print_error=False)
    except (CycloptsError, WrongInput) as error:
        _fail(str(error), 2)
    except Stopped as error:
        _fail(str(error), 1)
    except Interrupted as stop:
        _fail(str(stop), 128 + stop.number)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:  # whoever read our answers has had enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeDecodeError:
        _fail("the input is not UTF-8 text", 2)
    except MemoryError:
        _fail("there is not enough memory for this", 1)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # what torch says instead of MemoryError
            raise
        _fail("there is not enough memory for this", 1)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror}", 2)


def _end_on_signals() -> None:
    """SIGTERM and SIGHUP end a command with one line. A trainer handles them itself, and saves."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number, f"stopped by {signal.Signals(number).name}")

    if threading.current_thread() is threading.main_thread():
        for number in STOPPING:
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, end)


def _fail(message: str, code: int) -> None:
    if os.environ.get("RANK", "0") == "0":  # of many processes, one speaks
        print(f"limelight: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"limelight: warning: {message}", file=sys.stderr)
