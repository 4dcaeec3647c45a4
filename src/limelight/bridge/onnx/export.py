"""Writes the graphs of a model as ONNX files, and what programs need to know to use them."""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limelight.bridge.onnx.engine import Session
from limelight.bridge.onnx.graphs import Axes, Graph
from limelight.data.text.vocabulary import WORD
from limelight.tasks.task import Task

for _package in ("onnx", "onnxscript"):  # torch imports them late, which takes a second
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)

DESCRIPTION = "limelight.json"

EXAMPLE = {"batch": 3, "length": 5, "source": 7, "past": 11}  # sizes with which a graph is traced
LARGEST_FILE = 2**31 - 2**24  # bytes of weights; a file of ONNX cannot have 2 GB


def write_graph(graph: Graph, folder: Path) -> None:
    """Write a graph as one file, with a second file for the weights if they have more than 2 GB."""
    weights = sum(p.numel() * p.element_size() for p in graph.module.parameters())
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph.module.eval(),
            _arguments({name: _example(name, axes) for name, axes in graph.inputs.items()}),
            dynamo=True,
            verbose=False,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=_arguments({name: _named(axes) for name, axes in graph.inputs.items()}),
        )
        assert program is not None
        _remove_traces(program)
        program.save(folder / graph.file, external_data=weights > LARGEST_FILE)


def _remove_traces(program: torch.onnx.ONNXProgram) -> None:
    """Without the lines of code that each operation comes from: they are larger than a small model, and name
    folders of this computer."""
    for graph in program.model.graphs():
        for node in graph.all_nodes():
            node.metadata_props.clear()
            for output in node.outputs:
                output.metadata_props.clear()


def _example(name: str, axes: Axes) -> Tensor:
    shape = [EXAMPLE[axis] if isinstance(axis, str) else axis for axis in axes]
    if name == "lengths":
        return torch.tensor([5, 2, 4])
    return torch.zeros(shape, dtype=torch.int64) if name == "tokens" else torch.randn(shape)


def _named(axes: Axes) -> dict[int, str]:
    return {i: axis for i, axis in enumerate(axes) if isinstance(axis, str)}


def _arguments(inputs: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs in the order of the arguments of a graph; those of all layers are one list."""
    grouped = groupby(inputs, lambda name: name.split(".")[0])
    return tuple(
        [inputs[one] for one in names]
        if "." in (first := next(iter(names := list(group))))
        else inputs[first]
        for _, group in grouped
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the messages of the exporter about itself; its errors are raised."""
    log = logging.getLogger("torch.onnx")
    before, generator = log.level, torch.get_rng_state()
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
        torch.set_rng_state(generator)


def write_description(task: Task[Any], sessions: Mapping[str, Session], folder: Path) -> None:
    """Write what a program without this library needs: axes by name, vocabulary and classes."""
    described: dict[str, Any] = {
        "graphs": {file: {"inputs": one.inputs, "outputs": one.outputs} for file, one in sessions.items()},
        "data": json.loads(task.state),
    }
    if task.input_kind == "text":
        described["word"] = WORD.pattern
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", "utf-8")
