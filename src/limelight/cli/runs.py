"""The commands that train models and use the runs. Imports late, so that `--help` does not wait for torch."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight.cli.options import Data, Device, Flag, Json, JsonLines, RunFolder, Settings


def recipes() -> None:
    """List all recipes.

    Example: limelight recipes
    """
    from limelight.recipes import recipes

    found = recipes()
    width = max(map(len, found))
    for name, about in found.items():
        print(f"{name:{width}}  {about}")


def train(
    recipe: str,
    *,
    settings: Settings = (),
    data: Data = None,
    start: Annotated[Path | None, Parameter(name="--from")] = None,
    out: Path | None = None,
    resume: Flag = False,
    allow_inexact: Flag = False,
    device: Device = "auto",
    compiled: Annotated[bool, Parameter(name="--compile", negative="")] = False,
) -> None:
    """Train a model from a recipe, and write checkpoints, a report and figures to a run folder.

    Example: limelight train reverse --set model.heads=2 --set train.epochs=3 --out runs/two-heads

    Example: limelight train text --data new.csv --from runs/text --out runs/new

    Parameters
    ----------
    recipe
        Name of a recipe (see `limelight recipes`), your own TOML file, a plug-in (.py file), or a run folder
        to resume.
    start
        Run folder to start from: all weights that fit are taken over, and so are the vocabulary and the
        settings of the model. What does not fit is listed. train.freeze and train.rates train less of it.
    out
        Run folder to write. By default runs/NAME, where NAME is the name of the recipe.
    resume
        Continue from the newest checkpoint of the run folder. The result is bit-identical to that of an
        uninterrupted run.
    allow_inexact
        With --resume: resume even if settings, versions of libraries or the number of threads have changed;
        the result may then differ. The data, the optimiser, train.average and all shapes must be the same.
    compiled
        Compile the model with torch.compile, which can make training faster on GPUs.
    """
    from limelight.experiment import train
    from limelight.experiment.config import setting
    from limelight.terminal import show_report
    from limelight.training.distributed import first_process
    from limelight.training.progress import watcher

    run = train(
        recipe,
        dict(map(setting, settings)),
        out,
        data=data,
        start=start,
        resume=resume,
        inexact=allow_inexact,
        device=device,
        compiled=compiled,
        watcher=watcher(),
    )
    if first_process():
        show_report(run)


def evaluate(
    run: RunFolder,
    *,
    data: Path | None = None,
    split: str | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Compute the metrics of a trained model on one split of its data, or on other data.

    Example: limelight evaluate runs/reverse --split validation --json

    Example: limelight evaluate runs/text --data new.csv

    Example: limelight evaluate runs/translate --beam 5

    Parameters
    ----------
    data
        Other data than that of training: labelled texts (CSV, TSV), labelled tokens (CoNLL), sentence pairs,
        running text, or a folder of images.
        All of it is used; a folder can have train, validation and test files, from which --split chooses.
    split
        The split: train, validation or test. By default test, or validation if the data has no test split.
    beam
        Translation: number of beams in beam search. By default 1, which is greedy search.
    length_penalty
        Translation with more than one beam: translations are ranked by log-probability / length^penalty, with
        the length in tokens. By default 1; 0 favours short translations.
    as_json
        Print one JSON document with values that are not rounded.
    """
    from limelight.experiment import open_run
    from limelight.terminal import given_options, show_metrics
    from limelight.training.progress import watcher

    opened = open_run(run, device=device)
    options = given_options(beam=beam, length_penalty=length_penalty)
    opened.task.check_options(options)
    display = watcher()
    with display.phase("loading the data"):
        dataset = opened.dataset if data is None else opened.load_other(data)
    for note in dataset.notes if data is not None else ():
        display.note(note)
    split = split or dataset.held_out
    with display.phase("evaluating"):
        judged = opened.judge(split, dataset=dataset, **options)
    show_metrics(split, judged, opened.task.metric_descriptions, as_json=as_json)


def predict(
    run: RunFolder,
    *text: str,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    length: int | None = None,
    repetition: float | None = None,
    stop: str | None = None,
    score: Flag = False,
    alignment: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    as_jsonl: JsonLines = False,
    device: Device = "auto",
) -> None:
    """Print the predictions of a trained model for inputs given as arguments, in files or on stdin.

    Example: limelight predict runs/reverse "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3"

    Example: limelight predict runs/brackets < lines.txt > answers.txt

    Example: limelight predict runs/text new.csv --out answers.csv

    Example: limelight predict runs/digits photos/ --jsonl

    Example: limelight predict runs/translate --beam 4 "She does not wear her red shirt."

    Example: limelight predict runs/masked "The [mask] statement" --n-best 5

    Example: limelight predict runs/language --score "The import statement" "statement import The"

    Parameters
    ----------
    text
        Inputs: lines of text, files with one input per line, or tables (CSV, TSV) with the text columns of
        the training. Two texts in a line have a tab or ||| between them. Taggers also read files in columns,
        such as CoNLL. Image models take image files, and folders of them. Without arguments, each line of
        stdin is one input. An invalid input among others has an error in place of its answer.
    beam
        Translation: number of beams; 1 is greedy. By default 4, or --n-best if more; 1 with --temperature.
    n_best
        Translation and masked language models: number of answers per input, the best first (see
        --length-penalty). By default 1. With more than one, each line starts with the log-probability of the
        answer and a tab.
    length_penalty
        Translation with more than one beam: translations are ranked by log-probability / length^penalty, with
        the length in tokens. By default 1; 0 favours short translations.
    temperature
        Translation and language models: sample tokens with this temperature, such as 0.7. By default 0, which
        does not sample.
    top_k
        With --temperature: sample from the k most likely tokens only. By default 0, which means all tokens.
    top_p
        With --temperature: sample from the most likely tokens with this total probability. By default 1.
    seed
        With --temperature: random seed. By default 1.
    length
        Language models: maximum number of tokens of the continuation. By default 100.
    repetition
        Language models: penalty for tokens that occurred, such as 1.2. By default 1.
    stop
        Language models: text at which the continuation ends.
    score
        Language models: print the log-probability of each text instead of its continuation.
    alignment
        Translation: add a tab and the word alignment, such as 0-0 1-2 (input word - output word, from 0).
    out
        Write a table (.csv or .tsv): the columns of the input, the answers and their probabilities.
    as_json
        Print one JSON document: a list with the input, the answer, its probability and those of all classes,
        or the label of each token.
    as_jsonl
        Print the same as one JSON object per line, each as soon as it is known.
    """
    from limelight.cli.answers import predict_all
    from limelight.experiment import open_run
    from limelight.terminal import given_options

    options = given_options(
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        length=length,
        repetition=repetition,
        stop=stop,
        score=score or None,
        alignment=alignment or None,
    )
    predict_all(open_run(run, device=device), text, options, out=out, as_json=as_json, as_jsonl=as_jsonl)


def generate(
    run: RunFolder,
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    *,
    length: int = 200,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition: float | None = None,
    stop: str | None = None,
    seed: int = 1,
    count: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    device: Device = "auto",
) -> None:
    """Generate text with a language model; it is printed while it is generated.

    Example: limelight generate runs/language "The import statement" --length 300

    Example: limelight generate runs/language --temperature 0.5 --top-k 10 --count 3

    Example: limelight generate runs/language "def " --temperature 0 --stop "):"

    Parameters
    ----------
    prompt
        The text to continue. Without it, the model begins a text. - reads it from stdin.
    length
        Maximum number of generated tokens. The end of a document ends the text, too.
    temperature
        Temperature of sampling: 0 gives the most likely tokens, 1 samples from the model's distribution.
    top_k
        Sample from the k most likely tokens only. By default from all tokens.
    top_p
        Sample from the most likely tokens with this total probability. By default 1.
    repetition
        Penalty for tokens that occurred, such as 1.2: their logits are divided by it. By default 1.
    stop
        Text at which generation ends; it is not printed.
    seed
        Random seed. The same seed gives the same text.
    count
        Number of texts; each has a seed of its own, and begins after a line with its number.
    """
    import sys

    from limelight.experiment import open_run
    from limelight.terminal import given_options

    opened = open_run(run, device=device)
    prompt = sys.stdin.read() if prompt == "-" else prompt
    options = given_options(top_k=top_k, top_p=top_p, repetition=repetition, stop=stop)
    for number in range(count):
        if count > 1:
            print(f"--- {number + 1} of {count}")
        pieces = opened.generate(
            prompt, length=length, temperature=temperature, seed=seed + number, **options
        )
        print(prompt, end="", flush=True)
        for piece in pieces:
            print(piece, end="", flush=True)
        print()


def see(
    run: RunFolder,
    given: str | None = None,
    *,
    out: Path | None = None,
    dark: Flag = False,
    device: Device = "auto",
) -> None:
    """Show the attention of every layer and head of a trained model, as an HTML page or a figure.

    Example: limelight see runs/translate "She does not wear her red shirt."

    Example: limelight see runs/digits seven.png --out seven-attention.png

    Parameters
    ----------
    given
        Input: a line of text, a text file (its first eight inputs), or an image file. By default, examples of
        the test or validation split.
    out
        File to write. By default report.html in the run folder. The suffix selects the format: .html is an
        interactive page that works offline; .png, .svg and .pdf are figures of one input, with at most 24
        attention maps (of translations, cross-attention only); .json contains all attention weights.
    dark
        Draw the figure on a dark background. An HTML page follows the setting of the browser.
    """
    from limelight.cli.answers import looks_like_a_file
    from limelight.errors import WrongInput
    from limelight.experiment import open_run
    from limelight.experiment.pages import write_records

    path = out or run / "report.html"
    if given is not None and looks_like_a_file(given) and not Path(given).is_file():
        raise WrongInput(f"{given}: No such file or directory")
    write_records(open_run(run, device=device), given, path, dark=dark)
    print(path)


def serve(
    run: RunFolder,
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = 8765,
    host: str = "127.0.0.1",
    token: str = "",
    device: Device = "auto",
) -> None:
    """Serve a live page that shows predictions and attention maps while you type, and an HTTP API.

    Example: limelight serve runs/translate

    Example: limelight serve runs/translate --host 0.0.0.0 --token "$(openssl rand -hex 16)"

    Parameters
    ----------
    port
        Port of the address. 0 selects a free port.
    host
        Address to listen on. By default only this machine can reach it. 0.0.0.0 means all networks; it needs
        --token. The connection is not encrypted.
    token
        A secret of at least 16 letters, digits, - or _ that every request must have. The printed address
        contains it.
    """
    from limelight.experiment import open_run
    from limelight.experiment.pages import about
    from limelight.view.server.app import check_access
    from limelight.view.server.app import serve as serve_page

    check_access(host, token)
    opened = open_run(run, device=device)
    serve_page(opened.record, about(opened), port, host=host, token=token)


def explain(
    recipe: str,
    *,
    settings: Settings = (),
    data: Data = None,
    list_settings: Annotated[bool, Parameter(name="--settings", negative="")] = False,
    as_json: Json = False,
) -> None:
    """Print the shapes, parameters and cost in multiply-adds of each layer of a model; or its settings.

    Example: limelight explain reverse --set model.heads=2

    Example: limelight explain reverse --settings

    Parameters
    ----------
    recipe
        Name of a recipe (see `limelight recipes`), your own TOML file, a plug-in (.py file), or a run folder.
    list_settings
        List all settings of the recipe instead, with their values, defaults, allowed values and meanings.
    as_json
        Print one JSON document.
    """
    from limelight.experiment.config import experiment, sections_of, setting
    from limelight.experiment.explain import explain_experiment
    from limelight.terminal import show_explanation, show_settings

    changed = dict(map(setting, settings))
    if list_settings:
        show_settings(sections_of(experiment(recipe, changed, data)), as_json=as_json)
    else:
        show_explanation(explain_experiment(recipe, changed, data), as_json=as_json)
