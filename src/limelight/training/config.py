"""Settings of training."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from limelight.config import Config, flatten


def _check_interval(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,8} (steps?|epochs?)", text, re.ASCII):
        raise ValueError(f"is {text!r}; allowed: an interval such as '100 steps' or '1 epoch'")
    return text


Interval = Annotated[str, AfterValidator(_check_interval)]


def _dotted(value: Any) -> Any:
    """TOML reads the dots in `train.rates.encoder.blocks = 0.1` as tables in tables."""
    return flatten(value) if isinstance(value, dict) else value


class TrainConfig(Config):
    """Duration, batches, optimiser, learning rate schedule, evaluation and saving."""

    epochs: float | int = Field(
        10,
        gt=0,
        le=1_000_000,
        description="passes over the training data; 0.5 uses half of it once",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 1_000_000},  # pydantic omits those of unions
    )
    epoch_steps: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="minimum number of steps per epoch: with little data, an epoch is several passes",
    )
    batch: int = Field(128, ge=1, le=1_000_000, description="examples per step, over all processes together")
    accumulate: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="number of parts into which each process splits its share of a batch to save memory; the "
        "gradients of the parts are summed",
    )
    optimiser: Literal["adam", "muon"] = Field(
        "adam", description="adam: AdamW. muon: Muon for the hidden matrices, AdamW for all other parameters"
    )
    rate: float = Field(1e-3, gt=0, description="peak learning rate, reached at the end of the warm-up")
    schedule: Literal["cosine", "inverse-root", "constant"] = Field(
        "cosine",
        description="learning rate after the warm-up: cosine falls to 0 at the last step, inverse-root falls "
        "with 1/√step, constant stays at the peak",
    )
    warmup: int = Field(
        50,
        ge=0,
        le=1_000_000_000,
        description="steps of linear warm-up, at most a quarter of all steps; 0 starts at the peak rate",
    )
    decay: float = Field(0.01, ge=0, description="weight decay, applied to matrices only; 0 disables it")
    clip: float = Field(1.0, ge=0, description="maximum gradient norm; 0 disables clipping")
    smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="label smoothing: probability that is spread over all classes or tokens; 0 disables it",
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="evaluate and save an exponential moving average of the weights, over about "
        "1/(1 - average) steps; 0 disables it",
    )
    evaluate_every: Interval = Field(
        "1 epoch",
        description="interval between evaluations on the validation split: 'N steps' or 'N epochs'",
    )
    save_every: Interval = Field(
        "1 epoch",
        description="interval between checkpoints: 'N steps' or 'N epochs'. A new best evaluation, "
        "an interruption and the end of the run are always saved",
    )
    patience: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="consecutive evaluations without improvement after which the run ends; 0 disables this",
    )
    perfect: int = Field(
        1,
        ge=0,
        le=1_000_000,
        description="consecutive perfect evaluations after which the run ends; 0 disables this",
    )
    freeze: list[str] = Field(
        [],
        description='parts of the model that are not trained, such as ["encoder.input"]: names of '
        "parameters, or their beginnings up to a dot; `limelight explain` lists them",
    )
    rates: Annotated[dict[str, Annotated[float, Field(gt=0)]], BeforeValidator(_dotted)] = Field(
        {},
        description="factors of the learning rate of parts of the model, such as { encoder = 0.1 }; the "
        "longest name that fits a parameter counts; all others have the factor 1",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="precision of the forward pass; bfloat16 uses torch.autocast"
    )

    def in_steps(self, interval: Interval, steps_per_epoch: int) -> int:
        """An interval such as "2 epochs" as a number of steps."""
        number, unit = interval.split()
        return int(number) * (steps_per_epoch if unit.startswith("epoch") else 1)
