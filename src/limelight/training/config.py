"""How long, how fast and how carefully a model learns."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from limelight.config import Config

# "100 steps", "1 epoch": how often something is done.
Often = Annotated[str, StringConstraints(pattern=r"^[1-9]\d{0,8} (steps?|epochs?)$")]


class TrainConfig(Config):
    epochs: int = Field(10, ge=1)
    batch: int = Field(128, ge=1)  # examples a step, over all processes
    accumulate: int = Field(1, ge=1)  # in how many pieces each process computes its part of a batch
    rate: float = Field(1e-3, gt=0)
    schedule: Literal["cosine", "inverse-root", "constant"] = "cosine"
    warmup: int = Field(50, ge=0)  # steps
    decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, ge=0)  # the longest gradient; 0: any
    smoothing: float = Field(0.0, ge=0, lt=1)
    evaluate_every: Often = "1 epoch"
    save_every: Often = "1 epoch"
    patience: int = Field(0, ge=0)  # evaluations without a better one before the run ends; 0: any
    perfect: int = Field(1, ge=0)  # perfect evaluations in a row after which it ends; 0: it goes on
    precision: Literal["float32", "bfloat16"] = "float32"

    def in_steps(self, often: Often, steps_per_epoch: int) -> int:
        number, unit = often.split()
        return int(number) * (steps_per_epoch if unit.startswith("epoch") else 1)
