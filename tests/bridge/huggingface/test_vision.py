"""Imported image classifiers compute what transformers computes, from the pixels of a file on."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from folders import roughened
from PIL import Image
from support import must_fail, refused

from limelight.experiment import Run, import_model
from limelight.view.capture import capture

SIZES: dict[str, Any] = {
    "hidden_size": 22,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 29,
    "image_size": 21,
    "patch_size": 7,
    "id2label": {0: "crane", 1: "boat", 2: "crane"},
    "label2id": {"crane": 0, "boat": 1},
}
VIT = {"size": {"height": 21, "width": 21}, "resample": 2}
DEIT = {"size": {"height": 27, "width": 27}, "crop_size": {"height": 21, "width": 21}, "resample": 3}
NORMAL = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
MODELS = {
    "ViTForImageClassification": ("ViTConfig", "ViTImageProcessorPil", VIT),
    "DeiTForImageClassification": ("DeiTConfig", "DeiTImageProcessorPil", DEIT),
    "DeiTForImageClassificationWithTeacher": ("DeiTConfig", "DeiTImageProcessorPil", DEIT),
}


@pytest.fixture(scope="module", params=list(MODELS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Run]:
    """The model of transformers, its image processor, and the imported run."""
    config, processor, settings = MODELS[request.param]
    folder: Path = tmp_path_factory.mktemp("theirs")
    made = getattr(transformers, config)(**SIZES, attn_implementation="eager")
    theirs = roughened(getattr(transformers, request.param)(made)).eval()
    theirs.save_pretrained(folder)
    prepare = getattr(transformers, processor)(**settings, **NORMAL)
    prepare.save_pretrained(folder)
    return theirs, prepare, import_model(folder, tmp_path_factory.mktemp("ours") / "run")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "noise.png"
    noise = np.random.default_rng(5).integers(0, 256, (53, 37, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((370, 530)).save(path)
    return path


def check_equal(theirs: Any, prepare: Any, run: Run, path: Path) -> None:
    pixels = prepare(Image.open(path), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        expected = theirs(pixels, output_attentions=True)
    task = cast(Any, run.task)
    inputs = task.normalise(task.read(path).unsqueeze(0).float() / 255)
    torch.testing.assert_close(inputs, pixels, rtol=1e-5, atol=1e-5)
    found = capture(run.model, inputs)
    torch.testing.assert_close(found.output, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(run.model(inputs), expected.logits, rtol=1e-4, atol=1e-4)
    for ours, other in zip(found.attentions, expected.attentions, strict=True):
        torch.testing.assert_close(ours.weights, other, rtol=1e-4, atol=1e-5)


def test_pixels_logits_and_attention_maps_are_equal(pair: tuple[Any, Any, Run], picture: Path) -> None:
    theirs, prepare, run = pair
    check_equal(theirs, prepare, run, picture)
    prepare.resample = 0
    must_fail(check_equal, theirs, prepare, run, picture)
    prepare.resample = 2 if "ViT" in type(theirs).__name__ else 3


def test_predict_and_see_work_on_a_file(pair: tuple[Any, Any, Run], picture: Path) -> None:
    _, _, run = pair
    (answer,) = run.predict([picture])
    assert set(answer.probabilities) == {"crane", "boat", "crane (2)"}
    (record,) = run.record([str(picture)])
    assert len(getattr(record, "maps", ())) == 3, record


def test_another_preparation_is_refused(tmp_path: Path) -> None:
    theirs = transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES))
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "preprocessor_config.json"
    for content, words in {
        '{"size": {"shortest_edge": 21}}': "equal height and width",
        '{"do_resize": false}': "do_resize is False; limelight has only True",
        '{"size": 27}': "images have 27 pixels per side; config.json has 21",
        '{"resample": 5}': "resample is 5",
    }.items():
        path.write_text(content)
        assert words in refused(import_model, tmp_path, tmp_path / "run")
        assert not (tmp_path / "run").exists()
