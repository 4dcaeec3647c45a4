"""Folders to give to others: the weights of a run in the format of another library, with a model card."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from limelight.bridge.huggingface.exporting import Written, write_model
from limelight.bridge.safetensors import write_folder
from limelight.data.dataset import SequenceData
from limelight.data.text.running_text import TextData
from limelight.data.text.translation_data import PairData
from limelight.experiment.cards import figures_of, model_card
from limelight.experiment.run import Run
from limelight.models.embedder import EmbedderConfig
from limelight.training.weights import weights_of

MOST_TEXTS = 1_000  # by which tokenizers are compared
WEIGHTS_ALONE = """The weights alone, as tensors with the names that they have in limelight:

```python
from safetensors.torch import load_file

weights = load_file("model.safetensors")
for name, tensor in weights.items():
    print(name, tuple(tensor.shape))
```

`config.json` has all settings, and `data.json` what prediction needs besides the weights, such as the
vocabulary."""


def write_safetensors(run: Run, folder: Path) -> tuple[str, ...]:
    """The weights with our names, the settings, the state of the task and a model card."""
    experiment = run.experiment
    about = {"name": experiment.name, "seed": experiment.seed}
    about |= {"train": experiment.train.model_dump(mode="json")} if not experiment.imported else {}
    notes = write_folder(
        folder, weights_of(run.model), experiment.task, experiment.model, run.task.state, about
    )
    usage = ["With limelight:", _python(_with_limelight(run)), WEIGHTS_ALONE]
    _write_card(run, folder, "limelight", usage, notes)
    return notes


def _write_card(
    run: Run, folder: Path, library: str, usage: list[str], notes: tuple[str, ...], base: str = ""
) -> None:
    for figure in figures_of(run.path):
        shutil.copyfile(figure, folder / figure.name)
    card = model_card(run, library, usage, notes, base)
    (folder / "README.md").write_text(card, encoding="utf-8")


def write_huggingface(run: Run, folder: Path) -> tuple[str, ...]:
    """A model of transformers, its tokenizer and a model card."""
    experiment = run.experiment
    written = write_model(
        folder, experiment.model, run.task, run.model, weights_of(run.model), _texts(run, experiment.imported)
    )
    usage = ["With transformers:", _python(_with_transformers(run, written))]
    if written.tokenizer or run.task.input_kind == "image":
        usage += ["With limelight:", _python(_with_limelight(run))]
    _write_card(run, folder, "transformers", usage, written.notes, written.architecture)
    return written.notes


def _with_transformers(run: Run, written: Written) -> list[str]:
    place, kind = '"PATH/OF/THIS/FOLDER"', run.experiment.task.kind
    lines = [f"model = {written.auto}.from_pretrained({place})"]
    if run.task.input_kind == "image":
        return [
            "from PIL import Image",
            f"from transformers import AutoImageProcessor, {written.auto}",
            "",
            f"prepare = AutoImageProcessor.from_pretrained({place})",
            *lines,
            'inputs = prepare(Image.open("image.png"), return_tensors="pt")',
            "label = model(**inputs).logits.argmax(-1).item()",
            "print(model.config.id2label[label])",
        ]
    if not written.tokenizer:
        return [f"from transformers import {written.auto}", "", *lines]
    lines = [
        f"from transformers import {written.auto}, {written.tokenizer}",
        "",
        f"tokenizer = {written.tokenizer}.from_pretrained({place})",
        *lines,
        'inputs = tokenizer("a text", return_tensors="pt")',
    ]
    if kind in ("language", "translate"):
        found = "found = model.generate(**inputs, max_new_tokens=40)"
        return [*lines, found, "print(tokenizer.decode(found[0], skip_special_tokens=True))"]
    if isinstance(run.experiment.model, EmbedderConfig):
        return [*lines, *_vector(run.experiment.model)]
    return [*lines, "print(model(**inputs).logits)"]


def _vector(config: EmbedderConfig) -> list[str]:
    """How the vector of a text is computed from the outputs of the last layer; without padding."""
    pooled = {"mean": "mean(1)", "max": "amax(1)", "first": "[:, 0]"}[config.pooling]
    lines = ["hidden = model(**inputs).last_hidden_state", f"vectors = hidden.{pooled}".replace(".[", "[")]
    return [
        *lines,
        *["vectors = vectors / vectors.norm(dim=1, keepdim=True)"] * config.unit,
        "print(vectors)",
    ]


def _with_limelight(run: Run) -> list[str]:
    name = run.experiment.name
    lines = ["import limelight", ""]
    lines.append(f'run = limelight.import_model("PATH/OF/THIS/FOLDER", out="runs/{name}")')
    if run.task.command == "generate":
        return [*lines, 'print("".join(run.generate("The ")))']
    given = "image.png" if run.task.input_kind == "image" else "a text"
    return [*lines, f'print(run.predict(["{given}"]))']


def _python(lines: Sequence[str]) -> str:
    return "\n".join(["```python", *lines, "```"])


def _texts(run: Run, imported: str) -> list[str]:
    """Texts of the run, not of its training, by which tokenizers are compared; none of an imported run."""
    if imported:
        return []
    data, split = run.dataset, run.dataset.held_out
    if isinstance(data, PairData):
        return [text for pair in data.texts[split] for text in pair]
    if isinstance(data, TextData):
        return [data.text(split, number) for number in range(min(len(data.examples(split)), MOST_TEXTS))]
    if isinstance(data, SequenceData):
        size = min(len(data.examples(split)), MOST_TEXTS)
        examples = data.examples(split)
        return [data.text(split, i) or data.reader.decode(examples.inputs[i]) for i in range(size)]
    return []


# Formats that other people's programs read, with a model card. No engine of limelight computes with them.
PUBLISHED: dict[str, Callable[[Run, Path], tuple[str, ...]]] = {
    "safetensors": write_safetensors,
    "huggingface": write_huggingface,
}
