"""Runs as folders of Hugging Face: transformers computes the same, and an import gives the same run back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from folders import LINES
from small_recipes import small
from support import must_fail, refused, roughen
from test_parity import FAMILIES
from torch import Tensor, nn

import limelight
from limelight.bridge.huggingface.export_encoders import export_encoder
from limelight.bridge.huggingface.exporting import write_model
from limelight.bridge.huggingface.verifying import difference_in_transformers, random_inputs
from limelight.errors import Stopped
from limelight.experiment import Run, import_model
from limelight.experiment.exports import export
from limelight.nn import padding_mask
from limelight.training.progress import Watcher
from limelight.training.weights import weights_of
from limelight.view.capture import capture

SIZES = {"model.width": 20, "model.heads": 2, "model.hidden": 13}
BERT = {"model.norm": "post", "model.positions": "learned", "model.embedding_norm": True, "model.depth": 2}
GPT2 = {"model.norm": "pre", "model.positions": "learned", "model.query_key_norm": False, "model.depth": 2}
LLAMA = {
    "model.norm": "pre-rms",
    "model.feedforward": "swiglu",
    "model.bias": "none",
    "model.query_key_norm": False,
    "model.key_value_heads": 1,
    "model.depth": 2,
}
LETTERS = {"task.data.limit": 40, "task.data.context": 23}
FIRST = {"model.pooling": "first", "model.head": "tanh"}
TEXT = FIRST | {"model.linear": 0.0, "model.unknown": 0.0, "model.input_dropout": 0.0}
VIT = {"model.positions": "learned", "model.init": "xavier", "model.depth": 2}
MARIAN = {"model.norm": "post", "model.encoder_depth": 2, "model.decoder_depth": 1}
OWN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "masked words": ("BertForMaskedLM", "masked", BERT),
    "masked characters": ("BertForMaskedLM", "masked", BERT | {"task.data.vocabulary": "characters"}),
    "masked bytes": (
        "BertForMaskedLM",
        "masked",
        BERT | {"task.data.vocabulary": "bytes", "model.segments": True, "model.activation": "gelu-tanh"},
    ),
    "classes of words": (
        "BertForSequenceClassification",
        "text",
        BERT | TEXT | {"task.data.vocabulary": "words"},
    ),
    "classes of subwords": (
        "BertForSequenceClassification",
        "text",
        BERT | TEXT | {"task.data.vocabulary": "subwords"},
    ),
    "classes, ReLU": (
        "DistilBertForSequenceClassification",
        "text",
        BERT | TEXT | {"task.data.vocabulary": "words", "model.head": "relu", "model.norm_epsilon": 1e-12},
    ),
    "yes or no": ("BertForSequenceClassification", "brackets", BERT | FIRST | {"model.causal": False}),
    "a number": ("BertForSequenceClassification", "count", BERT | FIRST),
    "pairs": ("BertForSequenceClassification", "pairs", BERT | FIRST),
    "GPT-2, bytes": ("GPT2LMHeadModel", "language", GPT2 | LETTERS | {"task.data.vocabulary": "bytes"}),
    "GPT-2, ReLU": (
        "GPT2LMHeadModel",
        "language",
        GPT2 | LETTERS | {"task.data.vocabulary": "characters", "model.activation": "relu"},
    ),
    "Llama, interleaved": (
        "LlamaForCausalLM",
        "language",
        LLAMA
        | LETTERS
        | {
            "task.data.vocabulary": "subwords",
            "task.data.vocabulary_size": 700,
            "model.positions": "rotary-interleaved",
            "model.rotary_scaling": [8.0, 1.0, 4.0, 11.0],
        },
    ),
    "Llama, biases": (
        "LlamaForCausalLM",
        "language",
        LLAMA | LETTERS | {"model.bias": "all", "model.tied": False, "task.data.vocabulary": "words"},
    ),
    "Mistral": (
        "MistralForCausalLM",
        "language",
        LLAMA | LETTERS | {"model.window": 5, "task.data.vocabulary": "bytes"},
    ),
    "Qwen 2": (
        "Qwen2ForCausalLM",
        "language",
        LLAMA | LETTERS | {"model.bias": "query-key-value", "task.data.vocabulary": "bytes"},
    ),
    "ViT": ("ViTForImageClassification", "digits", VIT),
    "ViT, colours": ("ViTForImageClassification", "images", VIT | {"task.data.size": 8, "model.patch": 4}),
    "DeiT": ("DeiTForImageClassificationWithTeacher", "digits", VIT | {"model.distillation": "output"}),
    "DeiT, one output": ("DeiTForImageClassification", "digits", VIT | {"model.distillation": "token"}),
    "Marian, words": ("MarianMTModel", "translate", MARIAN),
    "Marian, subwords": (
        "MarianMTModel",
        "translate",
        MARIAN
        | {
            "task.vocabulary.kind": "subwords",
            "task.vocabulary.plain_source": False,
            "task.vocabulary.shared": True,
            "task.vocabulary.size": 17,
            "model.tied": "all",
            "model.output_bias": True,
            "model.activation": "silu",
        },
    ),
    "Marian, two vocabularies": (
        "MarianMTModel",
        "translate",
        MARIAN
        | {
            "task.vocabulary.kind": "subwords",
            "task.vocabulary.plain_source": False,
            "task.vocabulary.size": 17,
            "model.tied": "output",
            "model.positions": "learned",
        },
    ),
}


class Notes(Watcher):
    """Collects the notes."""

    def __init__(self) -> None:
        self.texts = list[str]()

    def note(self, text: str) -> None:
        self.texts.append(text)


def trained(recipe: str, settings: dict[str, Any], folder: Path) -> Run:
    """A run of a recipe after a few steps, with random norms and biases."""
    own, data = small(recipe, folder)
    run = limelight.train(recipe, own | SIZES | settings, folder / "run", data=data, device="cpu")
    torch.manual_seed(5)
    roughen(run.model)
    with torch.no_grad():
        for parameter in run.model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.3)
    return run


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


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "pre-norm BERT": ("masked", BERT | {"model.norm": "pre"}, "model.norm is 'pre'; BERT of transformers"),
    "rotary BERT": ("masked", BERT | {"model.positions": "rotary"}, "model.positions is 'rotary'"),
    "no norm": ("masked", BERT | {"model.embedding_norm": False}, "model.embedding_norm is False"),
    "mean pooling": ("majority", BERT | FIRST | {"model.pooling": "mean"}, "model.pooling is 'mean'"),
    "norm in the head": ("majority", BERT | FIRST | {"model.head": "norm-relu"}, "model.head is 'norm-relu'"),
    "ε of DistilBERT": ("majority", BERT | FIRST | {"model.head": "relu"}, "model.norm_epsilon is None"),
    "one label per item": ("reverse", {}, "model.kind is 'labeller'"),
    "a linear path": ("text", BERT | TEXT | {"model.linear": 1.0}, "model.linear is 1.0"),
    "causal": ("brackets", BERT | {"model.causal": True}, "model.causal is True"),
    "GEGLU": ("language", LLAMA | LETTERS | {"model.feedforward": "geglu"}, "model.feedforward is 'geglu'"),
    "ALiBi": ("language", GPT2 | LETTERS | {"model.positions": "alibi"}, "model.positions is 'alibi'"),
    "normalised queries": (
        "language",
        LLAMA | LETTERS | {"model.query_key_norm": True},
        "model.query_key_norm is True",
    ),
    "sinks": ("language", LLAMA | LETTERS | {"model.window": 5, "model.sinks": 1}, "model.sinks is 1"),
    "mean of patches": ("digits", VIT | {"model.pooling": "mean"}, "model.pooling is 'mean'"),
    "sinusoids of patches": ("digits", {"model.depth": 1}, "model.positions is 'sinusoidal'"),
    "pre-norm translator": ("translate", {}, "model.norm is 'pre'; Marian of transformers"),
    "recurrent": ("translate-rnn", {}, "model.kind is 'recurrent'"),
}


@pytest.mark.parametrize(("recipe", "settings", "words"), REFUSED.values(), ids=REFUSED)
def test_what_transformers_lacks_is_refused_by_name(
    recipe: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    own, data = small(recipe, tmp_path)
    sizes = {key: value for key, value in SIZES.items() if key in own}
    limelight.train(recipe, own | sizes | settings, tmp_path / "run", data=data, device="cpu")
    run = limelight.open_run(tmp_path / "run", device="cpu")
    message = refused(export, run, "huggingface")
    assert words in message
    assert "\n" not in message
    assert not list((run.path / "exports").iterdir())


@pytest.fixture
def majority(tmp_path: Path) -> Run:
    (tmp_path / "runs").mkdir()
    return trained("majority", BERT | FIRST, tmp_path / "runs")


def test_a_model_that_computes_something_else_leaves_nothing(majority: Run) -> None:
    hook = majority.model.register_forward_hook(lambda _, __, out: out + 3e-3)
    for place in (None, majority.path.parent / "other"):
        with pytest.raises(Stopped, match="differs from that of the run by"):
            export(majority, "huggingface", place)
    assert not list((majority.path / "exports").iterdir())
    assert sorted(path.name for path in majority.path.parent.iterdir()) == ["run"]
    hook.remove()
    assert export(majority, "huggingface").is_dir()


def test_one_changed_weight_is_noticed(majority: Run, tmp_path: Path) -> None:
    def check_write(weights: dict[str, Tensor], name: str) -> None:
        (tmp_path / name).mkdir()
        try:
            write_model(
                tmp_path / name, majority.experiment.model, majority.task, majority.model, weights, []
            )
        except Stopped as error:
            raise AssertionError(error) from None

    weights = {name: one.clone() for name, one in weights_of(majority.model).items()}
    check_write(weights, "equal")
    weights["encoder.encoder.blocks.0.feedforward.expand.weight"][3, 5] += 0.5
    must_fail(check_write, weights, "changed")


def test_other_outputs_of_transformers_are_noticed(majority: Run) -> None:
    """Another ε, which an import of limelight would read, too."""
    folder = export(majority, "huggingface")
    made = export_encoder(majority.experiment.model, majority.task, weights_of(majority.model))  # type: ignore[arg-type]
    inputs = random_inputs(majority.model, majority.task)
    with torch.no_grad():
        expected = majority.model(*inputs.ours)
    assert difference_in_transformers(folder, made, inputs, expected) < 1e-5
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"layer_norm_eps": 0.1}))
    assert difference_in_transformers(folder, made, inputs, expected) > 1e-3


def test_a_model_card_has_the_results_and_the_figures(majority: Run) -> None:
    folder = export(majority, "huggingface")
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "pipeline_tag: text-classification" in card
    report = majority.report
    for split in report["metrics"]:
        assert f"| {split} | accuracy |" in card
    assert "share of correct predictions" in card
    assert "Licence: not stated" in card
    assert f"{report['parameters']:,}" in card
    for figure in majority.path.glob("*.png"):
        assert f"]({figure.name})" in card
        assert (folder / figure.name).read_bytes() == figure.read_bytes()
    assert str(majority.path) not in card


def test_a_tokenizer_that_would_read_a_text_in_another_way_is_not_written(tmp_path: Path) -> None:
    """Python's lower case of a final Σ is ς; that of the package tokenizers is σ."""
    table = tmp_path / "greek.csv"
    rows = [f"{'ΛΟΓΟΣ ΚΑΙ' if i % 2 else 'ΗΛΙΟΣ'} number {i % 7},{i % 2}" for i in range(60)]
    table.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    settings = BERT | TEXT | {"task.data.vocabulary": "words", "train.epochs": 1, "train.epoch_steps": 0}
    run = limelight.train("text", SIZES | settings, tmp_path / "run", data=table, device="cpu")
    notes = Notes()
    folder = export(run, "huggingface", watcher=notes)
    assert any("no tokenizer" in note and "ΟΣ" in note for note in notes.texts)
    assert not list(folder.glob("*token*"))
    assert (folder / "data.json").read_text(encoding="utf-8") == run.task.state
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "no tokenizer" in card
    assert "AutoTokenizer" not in card
    assert "has no tokenizer.json" in refused(import_model, folder, tmp_path / "again")
