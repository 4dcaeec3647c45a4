"""Translation from end to end, with a language that both models learn in seconds.

Each word has one translation, and the order of words is reversed.
"""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
import torch
from command import command
from support import must_fail, not_none
from tiny import StopAt

import limelight
from limelight.data.text.translation_data import Language, PairData, VocabularyConfig
from limelight.data.text.vocabulary import Subwords
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.config import experiment
from limelight.experiment.figures import attention_figure
from limelight.experiment.pages import draw_page
from limelight.training.interrupt import Interrupted
from limelight.training.progress import Watcher

WORDS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six"}
SMALL: dict[str, Any] = {
    "task.vocabulary.kind": "words",
    "task.vocabulary.rarest": 1,
    "task.data.validation": 0.1,
    "task.data.test": 0.1,
    "train.batch": 32,
    "train.warmup": 10,
    "train.perfect": 2,
}
MODELS: dict[str, dict[str, Any]] = {
    "translate": {"model.width": 32, "model.hidden": 64, "train.epochs": 20, "train.rate": 5e-3},
    "translate-rnn": {"model.width": 32, "model.embedding": 32, "train.epochs": 20, "train.rate": 1e-2},
}


def translated(sentence: str) -> str:
    return " ".join(WORDS[word] for word in reversed(sentence.split()))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of one to four words."""
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    sentences = [" ".join(words) for length in (1, 2, 3, 4) for words in product(WORDS, repeat=length)]
    path.write_text("".join(f"{sentence}\t{translated(sentence)}\n" for sentence in sentences))
    return path


@pytest.fixture(scope="module", params=MODELS)
def run(request: pytest.FixtureRequest, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return limelight.train(
        request.param, SMALL | MODELS[request.param], out=tmp_path_factory.mktemp("runs") / "run", data=pairs
    )


def test_a_translation_model_learns_and_reports_its_metrics(run: Run) -> None:
    metrics = run.report["metrics"]["test"]
    assert list(metrics) == ["loss", "accuracy", "bleu", "bleu_lowercase", "chrf", "exact", "course_bleu"]
    assert metrics["exact"] > 0.95
    assert metrics["bleu"] > 90
    assert run.report["signatures"]["bleu"].startswith("nrefs:1|case:mixed|")
    for picture in ("curves.png", "attention.png"):
        assert matplotlib.image.imread(run.path / picture).std() > 0.01


def test_the_page_explains_the_metrics_and_has_the_languages_of_the_data(run: Run) -> None:
    """The recipe does not name languages that may differ from those of the data."""
    page = draw_page(run)
    assert "not comparable with BLEU" in page
    assert set(run.report["metrics"]["test"]) - {"loss"} <= set(run.task.metric_descriptions)
    assert "source is &#x27;column 1&#x27;, target is &#x27;column 2&#x27;" in page
    assert "English" not in page
    assert "French" not in page


def test_the_figure_has_the_reference_if_the_translation_differs(run: Run) -> None:
    example = run.task.figure_example(run.model, run.dataset, "test")
    assert example.truths == (translated(str(example.given)),)
    title = attention_figure(run).get_suptitle()
    assert title.endswith((", correct", "”"))


def texts_of(run: Run) -> Sequence[tuple[str, str]]:
    assert isinstance(run.dataset, PairData)
    return run.dataset.texts["test"]


def test_exact_is_the_share_of_correct_translations(run: Run) -> None:
    texts = texts_of(run)
    answers = run.predict([source for source, _ in texts], beam=1)
    right = [answer.text == target for answer, (_, target) in zip(answers, texts, strict=True)]
    assert sum(right) / len(right) == run.evaluate("test")["exact"]


def test_predict_uses_the_search_of_pages_and_refuses_long_inputs(run: Run) -> None:
    lines = [source for source, _ in texts_of(run)]
    pages = [record.answer for record in run.see(*lines).records]
    assert [answer.text for answer in run.predict(lines)] == pages
    assert [answer.text for answer in run.predict(lines, beam=4)] == pages
    with pytest.raises(WrongInput, match=r"^input 1: [\d,]+ tokens; allowed: 2,000$"):
        run.predict(["one " * 2001])


def test_an_opened_run_translates_the_same(run: Run) -> None:
    lines = ["one two three", "", "six", "four four two one"]
    again = limelight.open_run(run.path).predict(lines)
    assert again == run.predict(lines)
    assert again[1].text == ""
    assert again[2].text == "six"


def check_alignment(run: Run, flip: bool) -> None:
    """At least 90 % of the words are aligned with the correct source word."""
    lines = ["one two three four", "five six one", "two five three six", "three one"]
    found = 0
    for line, answer in zip(lines, run.predict(lines, alignment=True), strict=True):
        assert answer.text == translated(line)
        count = len(line.split())
        expected = {(count - 1 - place if flip else place, place) for place in range(count)}
        found += len(expected & set(answer.alignment))
    assert found >= 0.9 * sum(len(line.split()) for line in lines)


def test_alignments_of_a_recurrent_model_are_correct(pairs: Path, tmp_path: Path) -> None:
    settings = SMALL | MODELS["translate-rnn"]
    run = limelight.train("translate-rnn", settings, out=tmp_path / "run", data=pairs)
    check_alignment(run, flip=True)
    must_fail(check_alignment, run, False)


def test_cross_attention_has_one_map_per_head_whose_rows_sum_to_one(run: Run) -> None:
    task: Any = run.task
    source, target = task.source.encode("one two three"), task.target.encode("trois deux un")
    layers = task.cross_attention(run.model, source, target)
    config: Any = run.experiment.model
    assert len(layers) == (config.decoder_depth if config.kind == "transformer" else 1)
    for maps in layers:
        assert maps.shape == (getattr(config, "heads", 1), 4, 4)
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))


def test_n_best_returns_distinct_answers_the_most_likely_first(run: Run) -> None:
    (answer,) = run.predict(["one two three"], beam=4, n_best=4)
    assert answer.text == "trois deux un"
    assert len({answer.text, *(other.text for other in answer.others)}) == 4
    assert not_none(answer.probability) > 0.5 > not_none(answer.others[0].probability)


def test_a_split_can_be_evaluated_with_beam_search_or_sampling(run: Run) -> None:
    judged = run.judge("validation", beam=4).values
    assert judged["exact"] >= run.evaluate("validation")["exact"] - 0.05
    sampled = run.judge("validation", temperature=50.0).values
    assert sampled["exact"] < 0.1 < judged["exact"]


def test_a_translation_run_is_evaluated_on_other_pairs(run: Run, tmp_path: Path) -> None:
    lines = ["one two\tdeux un", "six\tsix", "two\tun"]
    (tmp_path / "new.txt").write_text("".join(f"{line}\n" for line in lines))
    assert run.evaluate(data=tmp_path / "new.txt")["exact"] == pytest.approx(2 / 3)
    (tmp_path / "test.en").write_text("one two\nsix\n")
    (tmp_path / "test.fr").write_text("deux un\nsix\n")
    assert run.evaluate(data=tmp_path)["exact"] == 1


def test_a_resumed_translation_run_ends_with_the_same_bits(run: Run, pairs: Path, tmp_path: Path) -> None:
    """With Muon, dropout, batches of several lengths and split subwords."""
    name = run.experiment.name
    settings = SMALL | MODELS[name] | {"train.epochs": 2, "train.optimiser": "muon", "model.dropout": 0.2}
    settings |= {"task.vocabulary.kind": "subwords", "task.vocabulary.size": 60, "task.vocabulary.split": 0.2}

    def train(out: Path, watcher: Watcher | None = None, resume: bool = False) -> bytes:
        made = limelight.train(name, settings, out=out, data=pairs, watcher=watcher, resume=resume)
        weights = max(made.path.glob("checkpoints/*")) / "weights.safetensors"
        return weights.read_bytes() + (made.path / "metrics.jsonl").read_bytes()

    whole = train(tmp_path / "whole")
    for step in (1, 37, 39):
        with pytest.raises(Interrupted):
            train(tmp_path / str(step), StopAt(step))
        assert train(tmp_path / str(step), resume=True) == whole


def test_other_tasks_refuse_options_of_translation(tmp_path: Path) -> None:
    sizes = {"task.data.train": 100, "task.data.validation": 20, "task.data.test": 20, "train.epochs": 1}
    run = limelight.train("majority", sizes, out=tmp_path / "run")
    for options in ({"beam": 2}, {"alignment": True}):
        with pytest.raises(WrongInput, match=f"option '{next(iter(options))}' does not apply"):
            run.predict(["aabca"], **options)
    with pytest.raises(WrongInput, match="option 'beam' does not apply: this task has no options"):
        run.judge(beam=2)


def test_the_command_predict_translates_the_lines_of_stdin(run: Run) -> None:
    done = command("predict", str(run.path), stdin="one two\n\nthree\n")
    assert (done.returncode, done.stdout) == (0, "deux un\n\ntrois\n")
    several = command("predict", str(run.path), "--n-best", "3", stdin="\none two\n").stdout.splitlines()
    assert [line.split("\t")[1] for line in several[:4]] == ["", "", "", "deux un"]
    assert len(several) == 6
    aligned = command("predict", str(run.path), "--alignment", "one two").stdout
    assert aligned.startswith("deux un\t")
    asked = command("predict", str(run.path), "--beam", "2", "--alignment", "--json", "one")
    (answer,) = json.loads(asked.stdout)
    assert (answer["answer"], answer["alignment"]) == ("un", [[0, 0]])


@pytest.mark.parametrize("blank", ["\n", "\n \n", ""])
def test_blank_lines_have_blank_translations(run: Run, blank: str) -> None:
    done = command("predict", str(run.path), "--alignment", stdin=blank)
    assert (done.returncode, done.stdout) == (0, "\n" * blank.count("\n"))
    drawn = command("see", str(run.path), " ", "--out", str(run.path / "blank.png"))
    assert (drawn.returncode, drawn.stderr) == (2, "limelight: input 1: the line is empty\n")


def test_the_lines_of_a_file_are_read_as_in_training(run: Run, tmp_path: Path) -> None:
    lines, latin = tmp_path / "lines.txt", tmp_path / "latin.txt"
    lines.write_bytes(b"\xef\xbb\xbfone two\r\nthree\rsix\r\n")
    latin.write_bytes(b"one\nd\xe9j\xe0\n")
    assert command("predict", str(run.path), str(lines)).stdout == "deux un\nsix trois\n"
    assert (
        command("predict", str(run.path), stdin=lines.read_bytes().decode()).stdout == "deux un\nsix trois\n"
    )
    refused = command("predict", str(run.path), str(latin))
    assert refused.returncode == 2
    assert f"{latin}:2: byte 0xe9 at offset 5 is not UTF-8" in refused.stderr


def test_every_answer_has_its_alignment(run: Run) -> None:
    (answer,) = run.predict(["one two three"], beam=3, n_best=3, alignment=True)
    for one in (answer, *answer.others):
        assert [target for _, target in one.alignment] == list(range(len(one.text.split())))


def test_a_tensor_is_refused_by_a_translation_model(run: Run) -> None:
    with pytest.raises(WrongInput, match="reads lines of text, not tensors"):
        run.predict([torch.tensor([1, 2])])


def test_a_line_longer_than_the_learned_positions_is_refused_with_its_number(pairs: Path) -> None:
    wanted = experiment("translate", SMALL | {"model.positions": "learned"}, data=pairs)
    task, _ = wanted.task.load(seed=1)
    model = wanted.model.build(task.sizes)
    assert len(task.predict(model, ["one two three four", ""])) == 2
    with pytest.raises(WrongInput, match=r"^input 8: 10 tokens; this model has 6 positions$"):
        task.predict(model, ["one", "one " * 9], first=7)


def test_the_command_evaluate_prints_signatures(run: Run) -> None:
    judged = json.loads(command("evaluate", str(run.path), "--json").stdout)
    assert judged["bleu"] == run.report["metrics"]["test"]["bleu"]
    assert judged["signatures"] == run.report["signatures"]
    assert "|tok:13a|" in command("evaluate", str(run.path)).stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\tun\ntwo deux\n", "pairs.tsv:2: "),
        (b"one\tun\n\ttrois\n", "pairs.tsv:2: "),
        (b"one\tun\n" + b"x" * 1001 + b"\ttrois\n", "pairs.tsv:2: "),
        (b"one\tun\nd\xe9j\xe0\tvu\n", "pairs.tsv:2: byte 0xe9"),
        (b"", "pairs.tsv: "),
    ],
    ids=["no tab", "an empty side", "too long", "not UTF-8", "empty"],
)
def test_invalid_pairs_are_refused_with_file_and_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_bytes(content)
    out = tmp_path / "run"
    done = command("train", "translate", "--data", str(tmp_path / "pairs.tsv"), "--out", str(out))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_begin_and_end_marks_are_outside_the_vocabulary_and_not_decoded() -> None:
    language = Language(vocabulary=Subwords.build(["the red car is here", "the black cat is there"], 60))
    row = language.encode_target("the red cat is here")
    assert (
        (int(row[0]), int(row[-1]))
        == (language.begin, language.end)
        == (language.size - 2, language.size - 1)
    )
    assert language.decode(row) == "the red cat is here"
    assert language.item_names(row)[0] == "[begin]"
    assert language.item_names(row)[-1] == "[end]"
    words = language.words("the red cat is here")
    assert len(words) == len(row) - 2
    assert words == sorted(words)
    assert set(words) == set(range(5))


def test_subwords_are_split_only_in_training_and_sums_are_scaled_back(pairs: Path) -> None:
    changes = {"task.vocabulary.kind": "subwords", "task.vocabulary.size": 60, "model.dropout": 0.0}
    changes |= {"task.vocabulary.split": 0.5, "model.positions": "learned"}
    cut = experiment("translate", SMALL | changes, data=pairs)
    task, dataset = cut.task.load(seed=1)
    model = cut.model.build(task.sizes)
    batch = dataset.batch("train", torch.arange(31))
    whole, with_splits = (task.loss(model.train(mode), batch) for mode in (False, True))
    count = task.predictions(batch)
    assert whole.loss.equal(task.loss(model.eval(), batch).loss)
    again = task.loss(model.train(), batch)
    assert not with_splits.loss.equal(again.loss)  # subwords are split at random
    assert 0.8 < with_splits.sums["loss"] / whole.sums["loss"] < 1.25
    assert 0 <= float(with_splits.sums["accuracy"]) <= count


def test_a_plain_source_ignores_capitals_and_spaces_before_punctuation() -> None:
    pairs = [("I lost.", "J'ai perdu."), ("He lost, too!", "Il a perdu aussi !")]
    plain, _ = VocabularyConfig(size=50, plain_source=True).languages(pairs)
    exact, target = VocabularyConfig(size=50).languages(pairs)
    assert plain.encode("He  LOST , too !").equal(plain.encode("he lost, too!"))
    assert not exact.encode("He LOST, too!").equal(exact.encode("he lost, too!"))
    assert target.decode(target.encode("Il a perdu.")) == "Il a perdu."
    typed = "He lost , too !"
    words = plain.words(typed)
    assert len(words) == len(plain.encode(typed)) - 1
    assert set(words) == {0, 1, 3}
    assert set(plain.words("he lost, too!")) == {0, 1, 2}
