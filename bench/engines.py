"""Translations of a trained run: `predict --engine ctranslate2` from text to text, a bare loop, and others.

The environment variable RUN is the folder of a run of `limelight train multi30k`. All contenders translate
the same validation sentences in the same batches. The bare loop only calls CTranslate2 with tokens that are
ready, and so does Hugging Face's `generate`; ours splits the text into subwords and joins them again. Hugging
Face's model is Pegasus, which is Marian with pre-norm. It has the same weights, and its greedy translations
are compared with ours first.
"""

import os
import statistics
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PegasusConfig, PegasusForConditionalGeneration

from bench.padded import MARIAN, fill, fill_blocks
from bench.rounds import Contender, machine, ratio, row, take_turns
from limelight.bridge.ctranslate2 import load
from limelight.bridge.ctranslate2.vocabularies import language_names
from limelight.data.batching import even_batches
from limelight.data.ragged import Ragged
from limelight.experiment import Run, open_run
from limelight.experiment.exports import export
from limelight.tasks.translate.task import TOGETHER, Translate

SENTENCES = 1_000
TURN = {1: 8, TOGETHER: 4 * TOGETHER}  # sentences per turn of all contenders, by the size of batches
WAYS = {"greedy": 1, "beam 4": 4}
INT8, BARE = "limelight, CTranslate2 int8", "bare CTranslate2 int8"


def pegasus(run: Run) -> PegasusForConditionalGeneration:
    """Hugging Face's model with the weights of a run with pre-norm."""
    ours, config, task = run.model, run.experiment.model, run.task
    theirs = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=task.target.size,
            max_position_embeddings=len(ours.source_positions.table),
            d_model=config.width,
            encoder_layers=config.encoder_depth,
            decoder_layers=config.decoder_depth,
            encoder_ffn_dim=config.hidden,
            decoder_ffn_dim=config.hidden,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            activation_function=config.activation,
            scale_embedding=True,
            pad_token_id=task.target.begin,  # never read: it is masked in sources
            eos_token_id=task.target.end,
            forced_eos_token_id=None,
            decoder_start_token_id=task.target.begin,
            attn_implementation="sdpa",
        )
    ).eval()
    for part, stack in ((theirs.model.encoder, ours.encoder), (theirs.model.decoder, ours.decoder)):
        part.embed_positions.weight.data.copy_(ours.source_positions.table)
        fill(part.layer_norm, stack.norm)
        fill_blocks(part.layers, stack.blocks, MARIAN)
    fill(theirs.model.shared, ours.source_embedding)
    return theirs


def hugging_face(theirs: nn.Module, task: Translate, rows: list[Tensor], beam: int) -> Any:
    end = task.target.end
    tokens, lengths = Ragged.from_rows(rows).pad(torch.arange(len(rows)), task.target.begin)
    real = torch.ones_like(tokens)
    if lengths is not None:
        real = (torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)).long()
    most = GenerationConfig(
        num_beams=beam,
        max_new_tokens=2 * tokens.shape[1] + 19,
        do_sample=False,
        use_cache=True,
        pad_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=task.target.begin,
    )
    return lambda: theirs.generate(tokens, attention_mask=real, generation_config=most)[:, 1:]


def bare(folder: Path, task: Translate, batches: Sequence[list[Tensor]], beam: int) -> Contender:
    names, threads = language_names(task.source), torch.get_num_threads()
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=threads)
    words = [[[names[i] for i in one.tolist()] for one in batch] for batch in batches]

    def translate() -> None:
        for batch in words:
            translator.translate_batch(
                batch, beam_size=beam, max_decoding_length=2 * max(map(len, batch)) + 19
            )

    return translate


def check(theirs: nn.Module, task: Translate, rows: list[Tensor], answers: list[str]) -> None:
    """Greedy translations of Hugging Face's model are those of ours in float32."""
    found = hugging_face(theirs, task, rows, 1)()
    texts = [task.target.decode(one) for one in found]
    equal = sum(map(str.__eq__, texts, answers))
    print(f"Hugging Face's translations equal ours: {equal} of {len(rows)}.\n")
    if equal < 0.95 * len(rows):  # rounding decides between equally likely tokens
        raise RuntimeError("Hugging Face's model is not ours")


def contenders(run: Run, engines: dict[str, Path], lines: list[str], batch: int, beam: int) -> Any:
    task, lines = run.task, lines[: TURN[batch]]
    rows, theirs = [task.encode(run.model, line) for line in lines], pegasus(run)
    pieces = [index.tolist() for index in even_batches(Ragged.from_rows(rows).lengths, batch)]
    batches = [[rows[i] for i in piece] for piece in pieces]
    options = task.read_options({"beam": beam, "probability": False})
    writes = [hugging_face(theirs, task, one, beam) for one in batches]

    def ours(model: nn.Module) -> Contender:
        if batch > 1:
            return lambda: task.predict(model, lines, options)
        return lambda: [task.predict(model, [line], options) for line in lines]

    models = {f"limelight, CTranslate2 {name}": load(task, run.model, at) for name, at in engines.items()}
    found = {name: ours(model.eval()) for name, model in models.items()}
    found |= {
        "limelight, torch": ours(run.model),
        BARE: bare(engines["int8"], task, batches, beam),
        "Hugging Face generate": lambda: [write() for write in writes],
    }
    return found


def whole(run: Run, folder: Path, lines: list[str], beam: int, seconds: float) -> str:
    """`predict` of all sentences compared with the bare loop."""
    task, model = run.task, load(run.task, run.model, folder).eval()
    rows = [task.encode(run.model, line) for line in lines]
    index = even_batches(Ragged.from_rows(rows).lengths, TOGETHER)
    loop = bare(folder, task, [[rows[i] for i in piece.tolist()] for piece in index], beam)
    options = task.read_options({"beam": beam, "probability": False})
    times = take_turns({INT8: lambda: task.predict(model, lines, options), BARE: loop}, seconds)
    return ratio(times[INT8], times[BARE])


def main(seconds: float) -> None:
    run = open_run(os.environ["RUN"], device="cpu")
    print(f"\n## Translations with CTranslate2\n\n{machine()}, ctranslate2 {ctranslate2.__version__}\n")
    lines = list(run.dataset.references("validation"))[:SENTENCES]
    with tempfile.TemporaryDirectory() as folder:
        engines = {
            name: export(run, "ctranslate2", Path(folder) / name, quantize=name.removeprefix("float32"))
            for name in ("float32", "int8")
        }
        some = lines[:TOGETHER]
        answers = run.task.predict(run.model, some, run.task.read_options({"beam": 1}))
        rows = [run.task.encode(run.model, line) for line in some]
        check(pegasus(run), run.task, rows, [answer.text for answer in answers])
        titles: tuple[str, ...] = ()
        for batch, (way, beam) in product(TURN, WAYS.items()):
            times = take_turns(contenders(run, engines, lines, batch, beam), seconds)
            ours = times.pop(INT8)
            if not titles:
                titles = ("", "CTranslate2 int8, sentences/s", "rounds", *times)
                print(row(*titles), row(*["---"] * len(titles)), sep="\n")
            speed = f"{TURN[batch] / statistics.median(ours):.0f}"
            ratios = [ratio(one, ours) for one in times.values()]
            print(row(f"{way}, batch {batch}", speed, len(ours), *ratios), flush=True)
        print(f"\nTime of predict for {len(lines):,} sentences divided by that of the bare loop:\n")
        for way, beam in WAYS.items():
            print(f"- {way}: {whole(run, engines['int8'], lines, beam, seconds)}", flush=True)
