"""Trained models as ONNX files, which many programs and devices run: written, verified, and used for answers.

Each file has inputs and outputs with names, of any batch size and length. `limelight.json` beside them has
what else a program needs: the vocabulary, the classes, and the axes.
"""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import nn

from limelight.bridge.onnx.engine import Session, load
from limelight.bridge.onnx.export import write_description, write_graph
from limelight.bridge.onnx.graphs import graphs_of
from limelight.bridge.onnx.verify import verify
from limelight.data.dataset import Dataset
from limelight.tasks.task import Task

__all__ = ["load", "write"]


def write(
    task: Task[Any], model: nn.Module, dataset: Callable[[], Dataset[Any]], folder: Path, quantize: str = ""
) -> list[str]:
    """Write a model to an empty folder, and compare it with torch; notes about what was found.

    `quantize` must be empty: weights stay float32.
    """
    if next(model.parameters()).device.type != "cpu":
        model = deepcopy(model).cpu()
    graphs = graphs_of(model, task)
    for graph in graphs:
        write_graph(graph, folder)
    write_description(task, {graph.file: Session(folder / graph.file) for graph in graphs}, folder)
    return verify(task, model, dataset, folder)
