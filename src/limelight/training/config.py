"""How long, how fast and how carefully a model learns."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from limelight.config import Config


def _check_often(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,8} (steps?|epochs?)", text, re.ASCII):
        raise ValueError(f"is {text!r}; allowed: how often, as in '100 steps' or '1 epoch'")
    return text


Often = Annotated[str, AfterValidator(_check_often)]


class TrainConfig(Config):
    epochs: float | int = Field(10, gt=0, le=1_000_000)  # 0.5: half of the data, once
    batch: int = Field(128, ge=1, le=1_000_000)  # examples a step, over all processes
    accumulate: int = Field(
        1, ge=1, le=1_000_000
    )  # in how many pieces each process computes its part of a batch
    optimiser: Literal["adam", "muon"] = "adam"  # muon: for the hidden matrices, beside adam
    rate: float = Field(1e-3, gt=0)
    schedule: Literal["cosine", "inverse-root", "constant"] = "cosine"
    warmup: int = Field(50, ge=0, le=1_000_000_000)  # steps, but at most a quarter of all
    decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, ge=0)  # the longest gradient; 0: any
    smoothing: float = Field(0.0, ge=0, lt=1)
    average: float = Field(
        0.0, ge=0, lt=1
    )  # judge and keep a mean of weights, over about 1/(1 - average) steps
    evaluate_every: Often = "1 epoch"
    save_every: Often = "1 epoch"
    patience: int = Field(
        0, ge=0, le=1_000_000
    )  # evaluations without a better one before the run ends; 0: any
    perfect: int = Field(
        1, ge=0, le=1_000_000
    )  # perfect evaluations in a row after which it ends; 0: it goes on
    precision: Literal["float32", "bfloat16"] = "float32"

    def in_steps(self, often: Often, steps_per_epoch: int) -> int:
        number, unit = often.split()
        return int(number) * (steps_per_epoch if unit.startswith("epoch") else 1)
