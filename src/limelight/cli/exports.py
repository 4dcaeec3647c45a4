"""The commands that exchange models with other libraries. Imports late, so that `--help` does not wait."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.options import RunFolder


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

    Parameters
    ----------
    to
        Format: onnx (all models but recurrent ones) or ctranslate2 (translation and language models).
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
