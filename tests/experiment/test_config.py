"""B3: an invalid config is refused with its key and the allowed values."""

import random
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from support import must_fail

from limelight.config import differences, flatten
from limelight.errors import WrongInput
from limelight.experiment.config import experiment, setting, settings_of
from limelight.recipes import recipes

NAMES = sorted(recipes())
FREE = ("pairs", "text", "label", "source", "target")  # fields that accept any text


def keys_of(values: dict[str, Any], above: str = "") -> list[str]:
    """The full key of each value."""
    found = []
    for key, value in values.items():
        found += keys_of(value, f"{above}{key}.") if isinstance(value, dict) else [above + key]
    return found


def mutated(name: str, rng: random.Random) -> tuple[str, dict[str, Any]]:
    """The key of an error, and an experiment with this error."""
    values = experiment(name).model_dump(exclude_none=True)
    free = (
        "about",
        "plugin",
        "plugin_digest",
        "start",
        "start_digest",
        "imported",
        "model.rotary_scaling",  # any positive number is a factor
        "task.data.path",
        "task.data.pattern",
        "task.data.separator",
    )
    key = rng.choice([key for key in keys_of(values) if key not in free])
    *path, last = key.split(".")
    place = values
    for part in path:
        place = place[part]
    kind = rng.choice(["misspelt", "type", "value"])
    if kind == "misspelt":
        place[last + rng.choice("xyz_")] = place.pop(last)
    elif kind == "type":
        place[last] = [rng.random()] if rng.random() < 0.5 else {"a": 1}
    elif isinstance(place[last], bool):
        place[last] = "perhaps"
    elif isinstance(place[last], int | float):
        place[last] = rng.choice([-1, -0.5, float("nan"), float("inf"), "many"])
    else:
        place[last] = rng.choice(["/nowhere/", "", -3]) if last not in FREE else 5
    return key, values


def check_refusal(key: str, values: dict[str, Any], path: Path) -> None:
    path.write_text(tomli_w.dumps(values))
    try:
        experiment(path)
    except WrongInput as refusal:
        message = str(refusal)
        assert "\n" not in message
        assert key in message, message
        assert any(word in message for word in ("allowed:", "is required")), message
    else:
        raise AssertionError(f"{key} was accepted: {values}")


@pytest.mark.slow
def test_500_configs_with_one_error_each_are_refused_with_the_key(tmp_path: Path) -> None:
    rng = random.Random(1)
    for _ in range(500):
        check_refusal(*mutated(rng.choice(NAMES), rng), tmp_path / "experiment.toml")
    right = experiment("reverse").model_dump(exclude_none=True)
    must_fail(check_refusal, "train.epochs", right, tmp_path / "experiment.toml")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_equal_after_writing_and_reading_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(experiment(name).to_toml())
    assert experiment(path) == experiment(name)
    assert experiment(tmp_path) == experiment(name)
    assert recipes()[name] == experiment(name).about


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.epochs=3", ("train.epochs", 3)),
        ("model.norm=pre", ("model.norm", "pre")),
        ('model.norm="pre"', ("model.norm", "pre")),
        ("train.rate = 1e-3", ("train.rate", 1e-3)),
        ("model.causal=true", ("model.causal", True)),
        ("train.save_every=5 steps", ("train.save_every", "5 steps")),
        ("a=b=c", ("a", "b=c")),
        ("a=" + "9" * 5000, ("a", "9" * 5000)),
        ("a=" + "[" * 3000, ("a", "[" * 3000)),
    ],
)
def test_a_setting_is_parsed_as_toml_and_a_word_needs_no_quotes(text: str, expected: tuple[str, Any]) -> None:
    assert setting(text) == expected


@pytest.mark.parametrize("text", ["train.epochs", "=3", ""])
def test_a_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match="allowed: KEY=VALUE"):
        setting(text)


def test_settings_change_the_given_keys_and_no_others() -> None:
    changed = experiment("reverse", {"model.heads": 2, "task.data.length": 7, "train.epochs": 1, "seed": 5})
    model, data = changed.model.model_dump(), changed.task.data.model_dump()
    assert (model["heads"], data["length"], changed.train.epochs, changed.seed) == (2, 7, 1, 5)
    before, after = (flatten(settings_of(one)) for one in (experiment("reverse"), changed))
    assert set(differences(before, after)) == {
        "seed was 1, is 5",
        "task.data.length was 16, is 7",
        "model.heads was 1, is 2",
        "train.epochs was 5, is 1",
    }


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("revers", {}, "recipe 'revers' is unknown; did you mean 'reverse'?"),
        ("reverse", {"model.heds": 2}, "key 'model.heds' is unknown; did you mean 'model.heads'?"),
        ("reverse", {"modle.heads": 2}, "key 'modle' is unknown; did you mean 'model'?"),
        (
            "reverse",
            {"heads": 2},
            "key 'heads' is unknown; did you mean 'model.heads'? allowed: about, imported, model",
        ),
        ("reverse", {"data.train": 2}, "key 'data' is unknown; did you mean 'task.data'?"),
        ("reverse", {"model.heads": "two"}, "model.heads is 'two'; allowed: an integer"),
        ("reverse", {"model": 3}, "model is 3; allowed: settings with keys of their own"),
        ("reverse", {"train.epochs.more": 2}, "train.epochs.more: epochs is a single value"),
        ("reverse", {"task.kind": "guess"}, "task.kind is 'guess'; allowed: 'label', 'classify'"),
        ("reverse", {"model.kind": "classifier"}, "model.kind is 'classifier'; allowed: 'labeller'"),
        (
            "reverse",
            {"train.save_every": "0 steps"},
            "train.save_every is '0 steps'; allowed: an interval such as",
        ),
        ("reverse", {"model": {}}, "model.kind is missing; allowed: "),
        ("reverse", {"train.batch": 10**21}, "train.batch is 1000000000000000000000; allowed: "),
        (
            "language",
            {"model.rotary_scaling": [1.0, 2.0]},
            "rotary_scaling is [1.0, 2.0]; allowed: [], [factor] or [factor, low, high, length]",
        ),
        ("language", {"model.rotary_scaling": [2.0, 4.0, 1.0, 64.0]}, "; allowed: low < high"),
        ("language", {"model.rotary_base": 0.5}, "model.rotary_base is 0.5; allowed: greater than 1"),
        ("nowhere/reverse.toml", {}, "nowhere/reverse.toml: No such file"),
        ("nowhere/at/all", {}, "nowhere/at/all is not a recipe, a TOML file"),
    ],
)
def test_an_invalid_experiment_is_refused_with_the_allowed_or_nearest_value(
    source: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(WrongInput) as refusal:
        experiment(source, settings)
    assert message in str(refusal.value)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(experiment("reverse").to_toml(), encoding="utf-8-sig")
    assert experiment(tmp_path / "my.toml") == experiment("reverse")


def test_a_file_that_is_not_toml_is_refused_with_its_name(tmp_path: Path) -> None:
    for content in (b"name = ", b"\xff\xfe", b"[" * 5000):
        (tmp_path / "my.toml").write_bytes(content)
        with pytest.raises(WrongInput, match=r"my\.toml:"):
            experiment(tmp_path / "my.toml")
