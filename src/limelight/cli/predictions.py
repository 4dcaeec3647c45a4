"""The commands evaluate, predict and generate. Imports late, so that `--help` does not wait for torch."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight.cli.options import Device, Engine, Flag, Json, JsonLines, RunFolder


def evaluate(
    run: RunFolder,
    *,
    data: Path | None = None,
    split: str | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    as_json: Json = False,
    engine: Engine = "torch",
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

    opened = open_run(run, device=device, engine=engine)
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
    engine: Engine = "torch",
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
    opened = open_run(run, device=device, engine=engine)
    predict_all(opened, text, options, out=out, as_json=as_json, as_jsonl=as_jsonl)


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
    engine: Engine = "torch",
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

    opened = open_run(run, device=device, engine=engine)
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
