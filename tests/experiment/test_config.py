"""B3: what is wrong in a config is refused with its key and what is allowed."""

import random
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from support import goes_red

from limelight.config import differences, flatten
from limelight.errors import WrongInput
from limelight.experiment.config import experiment, recipes, setting, settings_of

NAMES = sorted(recipes())
FREE = ("pairs", "text", "label", "source", "target")  # any text may stand there


def keys_of(values: dict[str, Any], above: str = "") -> list[str]:
    """The full key of each value."""
    found = []
    for key, value in values.items():
        found += keys_of(value, f"{above}{key}.") if isinstance(value, dict) else [above + key]
    return found


def mutated(name: str, dice: random.Random) -> tuple[str, dict[str, Any]]:
    """An experiment with one thing wrong, and where."""
    values = experiment(name).model_dump(exclude_none=True)
    key = dice.choice([key for key in keys_of(values) if key not in ("about", "task.data.path")])
    *path, last = key.split(".")
    place = values
    for part in path:
        place = place[part]
    kind = dice.choice(["misspelt", "type", "value"])
    if kind == "misspelt":
        place[last + dice.choice("xyz_")] = place.pop(last)
    elif kind == "type":
        place[last] = [dice.random()] if dice.random() < 0.5 else {"a": 1}
    elif isinstance(place[last], bool):
        place[last] = "perhaps"
    elif isinstance(place[last], int | float):
        place[last] = dice.choice([-1, -0.5, float("nan"), float("inf"), "many"])
    else:
        place[last] = dice.choice(["/nowhere/", "", -3]) if last not in FREE else 5
    return key, values


def check_refusal(key: str, values: dict[str, Any], path: Path) -> None:
    path.write_text(tomli_w.dumps(values))
    try:
        experiment(path)
    except WrongInput as refusal:
        said = str(refusal)
        assert "\n" not in said
        assert key in said, said
        assert any(word in said for word in ("allowed:", "there are:", "must be given")), said
    else:
        raise AssertionError(f"{key} was accepted: {values}")


def test_five_hundred_mutated_configs_are_refused_by_name(tmp_path: Path) -> None:
    dice = random.Random(1)
    for _ in range(500):
        check_refusal(*mutated(dice.choice(NAMES), dice), tmp_path / "experiment.toml")
    right = experiment("reverse").model_dump(exclude_none=True)
    goes_red(check_refusal, "train.epochs", right, tmp_path / "experiment.toml")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_survives_being_written_and_read(name: str, tmp_path: Path) -> None:
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
def test_a_setting_is_read_as_toml_and_a_word_needs_no_quotes(text: str, expected: tuple[str, Any]) -> None:
    assert setting(text) == expected


@pytest.mark.parametrize("text", ["train.epochs", "=3", ""])
def test_a_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match="allowed: KEY=VALUE"):
        setting(text)


def test_settings_reach_every_key_and_nothing_else() -> None:
    changed = experiment("reverse", {"model.heads": 2, "task.data.length": 7, "train.epochs": 1, "seed": 5})
    assert (changed.model.heads, changed.task.data.length, changed.train.epochs, changed.seed) == (2, 7, 1, 5)
    before, after = (flatten(settings_of(one)) for one in (experiment("reverse"), changed))
    assert set(differences(before, after)) == {
        "seed was 1, is 5",
        "task.data.length was 16, is 7",
        "model.heads was 1, is 2",
        "train.epochs was 5, is 1",
    }


@pytest.mark.parametrize(
    ("source", "settings", "said"),
    [
        ("revers", {}, "recipe 'revers' is unknown; did you mean 'reverse'?"),
        ("reverse", {"model.heds": 2}, "key 'model.heds' is unknown; did you mean 'model.heads'?"),
        ("reverse", {"modle.heads": 2}, "key 'modle' is unknown; did you mean 'model'?"),
        ("reverse", {"train.epochs.more": 2}, "train.epochs.more: epochs is one value"),
        ("reverse", {"task.kind": "guess"}, "task.kind is 'guess'; allowed: 'label', 'classify'"),
        ("reverse", {"model.kind": "classifier"}, "model.kind is 'classifier'; allowed: 'labeller'"),
        (
            "reverse",
            {"train.save_every": "0 steps"},
            "train.save_every is '0 steps'; allowed: how often, as in",
        ),
        ("reverse", {"model": {}}, "model.kind is missing; allowed: "),
        ("reverse", {"train.batch": 10**21}, "train.batch is 1000000000000000000000; allowed: "),
        ("nowhere/reverse.toml", {}, "nowhere/reverse.toml: No such file"),
        ("nowhere/at/all", {}, "nowhere/at/all is neither a recipe nor"),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_right_one(
    source: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(WrongInput) as refusal:
        experiment(source, settings)
    assert said in str(refusal.value)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(experiment("reverse").to_toml(), encoding="utf-8-sig")
    assert experiment(tmp_path / "my.toml") == experiment("reverse")


def test_a_file_that_is_no_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    for content in (b"name = ", b"\xff\xfe", b"[" * 5000):
        (tmp_path / "my.toml").write_bytes(content)
        with pytest.raises(WrongInput, match=r"my\.toml:"):
            experiment(tmp_path / "my.toml")
