"""An imported translator computes what transformers computes: logits, attention maps, translations."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from folders import TEXT, roughened
from support import must_fail

from limelight.experiment import Run, import_model, open_run
from limelight.experiment.exports import export
from limelight.nn import padding_mask
from limelight.view.capture import capture

LINES = ["The sky is blue.", "She reads a small red sentence twice, and more!", "Why?"]
FRENCH = ["Le ciel est bleu, et la mer aussi.", "Elle ne porte pas sa robe rouge."] * 7


def spm(texts: list[str], size: int) -> bytes:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=file,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Run]:
    """The model of transformers, its tokenizer, and the imported run."""
    folder = tmp_path_factory.mktemp("marian")
    models = {"source.spm": spm(TEXT, 61), "target.spm": spm(FRENCH, 43)}
    pieces = ["</s>", "<unk>"]
    for name, content in models.items():
        (folder / name).write_bytes(content)
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        found = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
        pieces += [piece for piece in found if piece not in pieces]
    pieces.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    make: Any = transformers.MarianConfig
    config = make(
        vocab_size=len(pieces),
        decoder_vocab_size=len(pieces),
        d_model=22,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=29,
        decoder_ffn_dim=29,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=67,
        pad_token_id=len(pieces) - 1,
        decoder_start_token_id=len(pieces) - 1,
        attn_implementation="eager",
    )
    theirs: Any = roughened(transformers.MarianMTModel(config), 0.5).eval()
    theirs.final_logits_bias.copy_(torch.randn(1, len(pieces)))
    theirs.save_pretrained(folder)
    with pytest.warns(UserWarning, match="sacremoses"):
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model: Any = transformers.MarianMTModel
    theirs = model.from_pretrained(folder, attn_implementation="eager").eval()
    return theirs, tokenizer, import_model(folder, tmp_path_factory.mktemp("ours") / "run")


def check_equal(theirs: Any, tokenizer: Any, run: Run) -> None:
    given = tokenizer(LINES, text_target=[*FRENCH[:2], "Le ciel"], return_tensors="pt", padding=True)
    lengths = given["attention_mask"].sum(1)
    begin = theirs.config.decoder_start_token_id
    labels = given["labels"]
    target = torch.cat((torch.full((len(labels), 1), begin), labels[:, :-1]), 1)
    target_lengths = (labels != begin).sum(1)
    with torch.no_grad():
        expected = theirs(
            input_ids=given["input_ids"],
            attention_mask=given["attention_mask"],
            decoder_input_ids=target,
            output_attentions=True,
        )
        found = run.model(given["input_ids"], target, lengths, target_lengths)
    real = padding_mask(target_lengths, target.shape[1]).squeeze(1)
    torch.testing.assert_close(found, expected.logits[real], rtol=1e-4, atol=1e-4)
    one = capture(run.model, given["input_ids"][1:2], target[1:2, : int(target_lengths[1])])
    kinds = ("encoder_attentions", "decoder_attentions", "cross_attentions")
    maps = [one_map for kind in kinds for one_map in getattr(expected, kind)]
    assert len(one.attentions) == len(maps) == 3 + 2 + 2
    ours = sorted(one.attentions, key=lambda map: (map.name.startswith("decoder"), map.role == "cross"))
    for mine, other in zip(ours, maps, strict=True):
        rows, columns = mine.weights.shape[2:]
        torch.testing.assert_close(mine.weights[0], other[1, :, :rows, :columns], rtol=1e-4, atol=1e-5)


def test_logits_and_attention_maps_are_equal_with_padding(pair: tuple[Any, Any, Run]) -> None:
    theirs, tokenizer, run = pair
    check_equal(theirs, tokenizer, run)
    bias = next(one for name, one in run.model.named_parameters() if name == "output.bias")
    with torch.no_grad():
        before = bias[3].clone()
        bias[3] += 0.1
        must_fail(check_equal, theirs, tokenizer, run)
        bias[3] = before


def test_sentences_have_the_same_ids_and_the_same_greedy_translations(pair: tuple[Any, Any, Run]) -> None:
    theirs, tokenizer, run = pair
    task: Any = run.task
    for line in LINES:
        assert task.source.encode(line).tolist() == tokenizer(line)["input_ids"]
    given = tokenizer(LINES, return_tensors="pt", padding=True)
    found = theirs.generate(
        **given,
        max_new_tokens=11,
        do_sample=False,
        num_beams=1,
        bad_words_ids=[[theirs.config.pad_token_id]],
        forced_eos_token_id=None,
    )
    ours = [answer.text for answer in run.predict(LINES, beam=1)]
    for mine, row in zip(ours, found, strict=True):
        theirs_text = tokenizer.decode(row, skip_special_tokens=True)
        assert theirs_text
        assert mine.startswith(theirs_text)  # ours may be longer
    (record,) = run.record([LINES[0]])
    assert len(getattr(record, "maps", ())) == 7, record


def test_an_export_is_the_same_translator(pair: tuple[Any, Any, Run], tmp_path: Path) -> None:
    _, tokenizer, run = pair
    folder = export(run, "huggingface", tmp_path / "export")
    model: Any = transformers.MarianMTModel
    check_equal(model.from_pretrained(folder, attn_implementation="eager").eval(), tokenizer, run)
    with pytest.warns(UserWarning, match="sacremoses"):
        found = transformers.AutoTokenizer.from_pretrained(folder)
    for line in LINES:
        assert found(line)["input_ids"] == tokenizer(line)["input_ids"]
    again = import_model(folder, tmp_path / "again")
    assert again.task.state == run.task.state
    assert again.experiment.model == run.experiment.model
    for one, other in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert one.equal(other)


@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_another_engine_gives_the_same_translations(pair: tuple[Any, Any, Run], engine: str) -> None:
    _, _, run = pair
    export(run, engine)
    other = open_run(run.path, engine=engine, device="cpu")
    for beam in (1, 4):
        expected = [answer.text for answer in run.predict(LINES, beam=beam)]
        assert [answer.text for answer in other.predict(LINES, beam=beam)] == expected
