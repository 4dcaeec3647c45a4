"""Imported models compute what transformers computes: outputs, and every attention map."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import transformers
from folders import LINES, byte_level, roberta_tokenizer, save, sentencepiece_like, wordpiece
from support import must_fail, refused
from tokenizers import Tokenizer
from torch import Tensor

from limelight.experiment import Run, import_model, open_run
from limelight.experiment.exports import export
from limelight.view.capture import capture

BERT: dict[str, Any] = {
    "hidden_size": 22,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 29,
    "max_position_embeddings": 47,
    "hidden_dropout_prob": 0.0,
    "attn_implementation": "eager",
}
LLAMA: dict[str, Any] = {
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 29,
    "max_position_embeddings": 61,
    "attn_implementation": "eager",
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 31,
}
GPT2: dict[str, Any] = {
    "n_embd": 22,
    "n_layer": 3,
    "n_head": 2,
    "n_inner": 29,
    "n_positions": 47,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "attn_implementation": "eager",
}
DISTILBERT: dict[str, Any] = {
    "dim": 22,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 29,
    "max_position_embeddings": 47,
    "attn_implementation": "eager",
}
NAMES = {"id2label": {0: "bad", 1: "good", 2: "neither"}, "label2id": {"bad": 0, "good": 1, "neither": 2}}


def bert(kind: str, **changes: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        tokenizer = wordpiece()
        config = transformers.BertConfig(vocab_size=131 + 6, **BERT | NAMES | changes)
        return save(getattr(transformers, f"Bert{kind}")(config), tokenizer, folder)

    return make


def roberta(kind: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        config = transformers.RobertaConfig(vocab_size=307, type_vocab_size=1, **BERT | NAMES)
        return save(getattr(transformers, f"Roberta{kind}")(config), roberta_tokenizer(), folder)

    return make


def distilbert(kind: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        config = transformers.DistilBertConfig(vocab_size=131, **DISTILBERT | NAMES)
        return save(getattr(transformers, f"DistilBert{kind}")(config), wordpiece(), folder)

    return make


def gpt2(**changes: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        config = transformers.GPT2Config(vocab_size=307, **GPT2 | changes)
        model: Any = transformers.GPT2LMHeadModel
        return save(model(config), byte_level(["<|endoftext|>"]), folder)

    return make


def llama(family: str, tokenizer: Callable[[], Tokenizer], **changes: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        made = tokenizer()
        ids = {"vocab_size": made.get_vocab_size(), "bos_token_id": 1, "eos_token_id": 2}
        config = getattr(transformers, f"{family}Config")(**LLAMA | ids | changes)
        return save(getattr(transformers, f"{family}ForCausalLM")(config), made, folder)

    return make


def tiktoken_like() -> Tokenizer:
    return byte_level(["<unk>", "<|begin|>", "<|end|>"])


FAMILIES = {
    "BertModel": bert("Model"),
    "BertForMaskedLM": bert("ForMaskedLM", hidden_act="gelu_new"),
    "BertForSequenceClassification": bert("ForSequenceClassification"),
    "RobertaModel": roberta("Model"),
    "RobertaForMaskedLM": roberta("ForMaskedLM"),
    "RobertaForSequenceClassification": roberta("ForSequenceClassification"),
    "DistilBertModel": distilbert("Model"),
    "DistilBertForMaskedLM": distilbert("ForMaskedLM"),
    "DistilBertForSequenceClassification": distilbert("ForSequenceClassification"),
    "GPT2LMHeadModel": gpt2(),
    "GPT2LMHeadModel, exact GELU": gpt2(activation_function="gelu"),
    "LlamaForCausalLM": llama("Llama", sentencepiece_like),
    "LlamaForCausalLM, llama3": llama("Llama", tiktoken_like, rope_parameters=LLAMA3),
    "LlamaForCausalLM, linear": llama(
        "Llama", tiktoken_like, rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 700.0}
    ),
    "LlamaForCausalLM, tied, biases": llama(
        "Llama", tiktoken_like, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
    ),
    "MistralForCausalLM, window": llama("Mistral", sentencepiece_like, sliding_window=5),
    "Qwen2ForCausalLM": llama("Qwen2", tiktoken_like),
}


@pytest.fixture(scope="module", params=list(FAMILIES.values()), ids=list(FAMILIES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Run]:
    """The model of transformers, its tokenizer, and the imported run."""
    folder = request.param(tmp_path_factory.mktemp("theirs"))
    listed = transformers.AutoConfig.from_pretrained(folder).architectures
    theirs = getattr(transformers, listed[0]).from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return theirs, tokenizer, import_model(folder, tmp_path_factory.mktemp("ours") / "run")


def padded(tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """-> (B, T), (B): the ids of all lines, padded at the end, and their lengths"""
    rows = [torch.tensor(tokenizer.encode(line).ids) for line in LINES]
    lengths = torch.tensor(list(map(len, rows)))
    assert len(set(lengths.tolist())) == len(rows)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths


def outputs(theirs: Any, run: Run, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs of both models at real tokens."""
    real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
    with torch.no_grad():
        found = theirs(input_ids=tokens, attention_mask=real.long())
        ours = run.model(tokens) if run.task.command == "generate" else run.model(tokens, lengths)
    if "logits" in found:
        return (ours, found.logits) if ours.dim() == 2 else (ours[real], found.logits[real])
    mean = (found.last_hidden_state * real.unsqueeze(2)).sum(1) / lengths.unsqueeze(1)
    return ours, mean


def check_equal(theirs: Any, run: Run, tokens: Tensor, lengths: Tensor) -> None:
    ours, expected = outputs(theirs, run, tokens, lengths)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_outputs_are_equal_with_padding(pair: tuple[Any, Tokenizer, Run]) -> None:
    theirs, tokenizer, run = pair
    tokens, lengths = padded(tokenizer)
    check_equal(theirs, run, tokens, lengths)
    query = next(one for name, one in run.model.named_parameters() if name.endswith("query.weight"))
    with torch.no_grad():
        before = query[0, 0].clone()
        query[0, 0] += 0.5
        must_fail(check_equal, theirs, run, tokens, lengths)
        query[0, 0] = before


def test_every_attention_map_is_equal(pair: tuple[Any, Tokenizer, Run]) -> None:
    theirs, tokenizer, run = pair
    tokens, lengths = padded(tokenizer)
    for row, length in zip(tokens, lengths.tolist(), strict=True):
        one = row[:length].unsqueeze(0)
        with torch.no_grad():
            expected = theirs(input_ids=one, output_attentions=True).attentions
        found = capture(run.model, one).attentions
        assert len(found) == len(expected)
        for ours, other in zip(found, expected, strict=True):
            torch.testing.assert_close(ours.weights, other, rtol=1e-4, atol=1e-5)


def test_texts_have_the_same_ids(pair: tuple[Any, Tokenizer, Run]) -> None:
    _, tokenizer, run = pair
    reader: Any = run.task.reader
    for line in LINES:
        ids = tokenizer.encode(line).ids
        assert reader.encode(line).tolist() == ids
        assert reader.decode(torch.tensor(ids)) == tokenizer.decode(ids)
        assert len(reader.tokens(line)) == len(ids)
    joined = b"".join(reader.contents[i] for i in tokenizer.encode(LINES[1]).ids).decode()
    assert "naïve" in joined or "naive" in joined


def test_a_run_is_used_like_any_other(pair: tuple[Any, Tokenizer, Run]) -> None:
    theirs, tokenizer, run = pair
    (record,) = run.record([LINES[0]])
    assert len(getattr(record, "maps", ())) == 3, record
    if run.task.command == "generate":
        row = torch.tensor([tokenizer.encode(LINES[0]).ids])
        found = theirs.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=7, do_sample=False)
        expected = cast(Any, run.task.reader).decode(found[0, row.shape[1] :])
        assert "".join(run.generate(LINES[0], length=7, temperature=0.0)).strip() == expected.strip()
    else:
        (answer,) = run.predict(["The sky [mask] blue."])
        assert answer.text


def test_imported_language_models_run_in_other_engines(pair: tuple[Any, Tokenizer, Run]) -> None:
    """What an engine does not have is refused by its name."""
    _, _, run = pair
    if run.task.command != "generate":
        return
    expected = "".join(run.generate(LINES[0], length=9, temperature=0.0))
    for engine in ("onnx", "ctranslate2"):
        attention = cast(Any, run.model).decoder.blocks[0].self_attention.variant
        if engine == "ctranslate2" and (attention.window or attention.rotation.original):
            assert "ctranslate2 does not support" in refused(export, run, engine)
            continue
        export(run, engine)
        other = open_run(run.path, engine=engine, device="cpu")
        assert "".join(other.generate(LINES[0], length=9, temperature=0.0)) == expected


def test_the_end_of_a_long_prompt_is_read_and_a_long_text_is_scored(pair: tuple[Any, Any, Run]) -> None:
    _, _, run = pair
    if run.task.command != "generate":
        return
    text = " ".join(LINES * 7)
    assert len(cast(Any, run.task.reader).encode_text(text)) > cast(Any, run.task).context
    one, other = (run.predict([text + end], length=1)[0].probability for end in (" blue", " Why?"))
    assert one != other
    short, long = (float(run.predict([given], score=True)[0].text) for given in (text, text + " Why?"))
    assert long < short


def test_a_run_is_evaluated_on_user_data(pair: tuple[Any, Tokenizer, Run], tmp_path: Path) -> None:
    theirs, tokenizer, run = pair
    if run.experiment.task.kind == "embed":
        assert "cannot be evaluated on other data" in refused(run.evaluate, data=tmp_path)
        return
    path = tmp_path / "new.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{line}\tgood\n" for line in LINES))
    if run.experiment.task.kind == "classify":
        rows = [torch.tensor([tokenizer.encode(line).ids]) for line in LINES]
        with torch.no_grad():
            expected = [int(theirs(row).logits.argmax()) == 1 for row in rows]
        assert run.evaluate(data=path)["accuracy"] == pytest.approx(sum(expected) / len(LINES))
        return
    path = tmp_path / "new.txt"
    path.write_text(LINES[1])
    found = run.evaluate(data=path)
    if run.task.command == "generate":  # the text is shorter than a window
        ids = torch.tensor([tokenizer.encode(LINES[1], add_special_tokens=False).ids])
        with torch.no_grad():
            loss = theirs(ids, labels=ids).loss
        assert found["loss"] == pytest.approx(float(loss), rel=1e-4)
    else:
        assert found["loss"] > 0
