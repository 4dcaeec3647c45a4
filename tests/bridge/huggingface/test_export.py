"""Runs as folders of Hugging Face: transformers computes the same, and an import gives the same run back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from folders import LINES
from own_runs import OWN, Notes, trained
from PIL import Image
from support import must_fail
from test_parity import FAMILIES
from torch import Tensor

from limelight.experiment import Run, import_model
from limelight.experiment.exports import export
from limelight.nn import padding_mask
from limelight.view.capture import capture


@pytest.fixture(scope="module", params=list(OWN))
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The architecture, a run, its export, and the notes that were printed."""
    architecture, recipe, settings = OWN[request.param]
    run = trained(recipe, settings, tmp_path_factory.mktemp("own"))
    notes = Notes()
    return architecture, run, export(run, "huggingface", watcher=notes), notes.texts


@pytest.fixture(scope="module", params=list(FAMILIES.values()), ids=list(FAMILIES))
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that was imported from transformers, and its export."""
    folder = request.param(tmp_path_factory.mktemp("theirs"))
    run = import_model(folder, tmp_path_factory.mktemp("ours") / "run")
    return run, export(run, "huggingface")


def load(folder: Path, architecture: str) -> Any:
    """The model in a folder, by the class in its config.json."""
    listed = transformers.AutoConfig.from_pretrained(folder).architectures
    assert listed == [architecture]
    kind = getattr(transformers, architecture)
    return kind.from_pretrained(folder, attn_implementation="eager", local_files_only=True).eval()


def inputs_of(run: Run) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Random inputs with padding: the arguments of our model and those of transformers."""
    sizes = run.task.sizes
    if sizes.image[0]:
        images = torch.randn(3, *sizes.image)
        return [images], {"pixel_values": images}
    most = min(7, sizes.longest)
    lengths = torch.tensor([most, most - 1, 2])
    tokens = torch.randint(sizes.vocabulary, (3, most))
    theirs = {"input_ids": tokens, "attention_mask": padding_mask(lengths, most).squeeze(1).long()}
    if run.task.command == "generate":
        return [tokens], theirs
    if run.experiment.task.kind == "translate":
        target = torch.randint(sizes.outputs, (3, 4))
        return [tokens, target, lengths], theirs | {"decoder_input_ids": target}
    if sizes.separator:
        tokens[:, 1] = sizes.separator
        kinds = (torch.arange(most) > 1).long().expand(3, -1)
        tokens[:, 2:] %= sizes.separator
        theirs["token_type_ids"] = kinds
    return [tokens, lengths], theirs


def check_logits(theirs: Any, run: Run) -> None:
    ours, given = inputs_of(run)
    with torch.no_grad():
        expected, found = run.model(*ours), theirs(**given).logits
    if "decoder_input_ids" in given:
        found = found.flatten(0, 1)
    elif found.dim() == 3:
        real = given["attention_mask"].bool()
        found, expected = found[real], expected[real]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def check_inside(theirs: Any, run: Run) -> None:
    """Attention maps and, where features have the same order, the outputs of all blocks but the last."""
    ours, given = inputs_of(run)
    single = [one[:1] for one in ours[: 2 if "decoder_input_ids" in given else 1]]
    hidden = dict[str, Tensor]()
    hooks = [
        block.register_forward_hook(lambda _, __, out, name=name: hidden.update({name: out}))
        for name, block in run.model.named_modules()
        if name.split(".")[-1].isdigit() and ".blocks." in f".{name}"
    ]
    found = capture(run.model, *single)
    for hook in hooks:
        hook.remove()
    theirs_given = {key: one[:1] for key, one in given.items() if key != "attention_mask"}
    with torch.no_grad():
        output = theirs(**theirs_given, output_attentions=True, output_hidden_states=True)
    kinds = ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions")
    maps = [one for kind in kinds for one in (getattr(output, kind, None) or ())]
    mine = sorted(found.attentions, key=lambda map: (map.name.startswith("decoder"), map.role == "cross"))
    assert len(mine) == len(maps) > 0
    for ours_map, their_map in zip(mine, maps, strict=True):
        torch.testing.assert_close(ours_map.weights, their_map, rtol=1e-4, atol=1e-4)
    if "decoder_input_ids" not in given:
        depth = len(hidden)
        for one, other in zip(list(hidden.values())[: depth - 1], output.hidden_states[1:depth], strict=True):
            torch.testing.assert_close(one.reshape(other.shape), other, rtol=1e-4, atol=1e-4)


def test_transformers_computes_the_same_with_padding(exported: Any) -> None:
    architecture, run, folder, notes = exported
    theirs = load(folder, architecture)
    check_logits(theirs, run)
    check_inside(theirs, run)
    assert any("transformers" in note and "the same outputs" in note for note in notes)
    parts = dict(theirs.named_parameters())
    query = next(one for name, one in parts.items() if ("q" in name or "c_attn" in name) and one.dim() == 2)
    with torch.no_grad():
        query += 0.5 * torch.randn_like(query)
    must_fail(check_logits, theirs, run)


def converted(run: Run) -> dict[str, Tensor]:
    """The weights of a run, of which features may have been permuted: sorted values."""
    return {name: one.flatten().sort().values for name, one in run.model.state_dict().items()}


def test_an_import_gives_the_run_back(exported: Any, tmp_path: Path) -> None:
    _, run, folder, _ = exported
    again = import_model(folder, tmp_path / "again", task=run.experiment.task.kind)
    assert getattr(again.task, "answers", None) == getattr(run.task, "answers", None)
    ours, _ = inputs_of(run)
    with torch.no_grad():
        torch.testing.assert_close(again.model(*ours), run.model(*ours), rtol=1e-5, atol=1e-5)
    before, after = converted(run), converted(again)
    for name in before:
        assert before[name].equal(after[name]), name
    permuted = run.experiment.model.positions in ("rotary-interleaved", "sinusoidal")
    if not permuted:
        for name, one in run.model.state_dict().items():
            assert one.equal(again.model.state_dict()[name]), name


def test_texts_have_the_same_ids(exported: Any, tmp_path: Path) -> None:
    architecture, run, folder, notes = exported
    if "Image" in architecture:
        assert not (folder / "tokenizer.json").exists()
        return
    if not (folder / "tokenizer_config.json").exists():
        assert (folder / "data.json").read_text() == run.task.state
        assert any("no tokenizer" in note for note in notes)
        return
    task: Any = run.task
    if architecture == "MarianMTModel":
        with pytest.warns(UserWarning, match="sacremoses"):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for first, second in run.dataset.texts["test"]:
            found = tokenizer(first, text_target=second)
            assert found["input_ids"] == task.source.encode(first).tolist()
            assert found["labels"] == task.target.encode(second).tolist()
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    data: Any = run.dataset
    count = min(20, len(data.examples("validation")))
    texts = [
        data.text("validation", i)
        or task.reader.decode(data.batch("validation", torch.tensor([i])).inputs[0])
        for i in range(count)
    ]
    assert len(texts) > 1
    for text in texts:
        found = tokenizer(*text.split("\t"))
        assert found["input_ids"] == task.reader.encode(text).tolist()


def test_transformers_generates_the_same(exported: Any) -> None:
    architecture, run, folder, _ = exported
    if not architecture.endswith(("LMHeadModel", "ForCausalLM", "MTModel")):
        return
    theirs = load(folder, architecture)
    tokens = inputs_of(run)[0][0][:1, :5]
    task: Any = run.task
    options: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "num_beams": 1}
    with torch.no_grad():
        found = theirs.generate(tokens, attention_mask=torch.ones_like(tokens), **options)[0].tolist()
        if architecture == "MarianMTModel":
            row = [task.target.begin]
            while len(row) < len(found):
                logits = run.model(tokens, torch.tensor([row]))[-1]
                logits[task.target.begin] = -torch.inf
                row.append(int(logits.argmax()))
        else:
            row = tokens[0].tolist()
            while len(row) < len(found):
                row.append(int(run.model(torch.tensor([row]))[0, -1].argmax()))
    assert len(found) > 1 + len(tokens) * (architecture != "MarianMTModel")
    assert row == found


def test_imported_models_are_exported_as_they_were(imported: Any, tmp_path: Path) -> None:
    run, folder = imported
    again = import_model(folder, tmp_path / "again", task=run.experiment.task.kind)
    assert again.task.state == run.task.state
    assert again.experiment.model == run.experiment.model
    for before, after in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert before.equal(after)
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    theirs = load(folder, architecture)
    loader = "PreTrainedTokenizerFast" if "Qwen2" in architecture else "AutoTokenizer"
    if run.experiment.task.kind != "embed":
        check_logits(theirs, run)
    check_inside(theirs, run)
    assert (folder / "README.md").read_text().count(f"{loader}.from_pretrained") == 1
    tokenizer = getattr(transformers, loader).from_pretrained(folder)
    for line in LINES:
        assert tokenizer(line)["input_ids"] == run.task.reader.encode(line).tolist()


@pytest.mark.parametrize("name", ["ViT", "ViT, colours"])
def test_images_of_the_right_size_become_the_same_pixels(name: str, tmp_path: Path) -> None:
    _, recipe, settings = OWN[name]
    run = trained(recipe, settings, tmp_path)
    processor: Any = transformers.AutoImageProcessor
    prepare = processor.from_pretrained(export(run, "huggingface"), backend="pil")
    channels, rows, columns = run.task.sizes.image
    shape = (rows, columns, channels)[: 3 if channels == 3 else 2]
    pixels = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "noise.png")
    task: Any = run.task
    ours = task.normalise(task.read(tmp_path / "noise.png").unsqueeze(0).float() / 255)
    theirs = prepare(Image.open(tmp_path / "noise.png"), return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
