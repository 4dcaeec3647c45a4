"""Random choice of the next token: temperature, top-k and top-p."""

from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config

LOWEST_TEMPERATURE = 0.001  # lower temperatures overflow, and would be greedy anyway


class Sampling(Config):
    """How the next token is chosen. Without a temperature, it is the most likely one."""

    temperature: float = Field(0.0, ge=0, description="temperature of sampling; 0 does not sample")
    top_k: int = Field(
        0, ge=0, le=1_000_000, description="sample from the k most likely tokens; 0 means all tokens"
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="sample from the most likely tokens that have this total probability"
    )
    seed: int = Field(1, ge=0, le=2**63 - 1, description="random seed of sampling")

    @model_validator(mode="after")
    def _check_temperature(self) -> Self:
        if 0 < self.temperature < LOWEST_TEMPERATURE:
            raise ValueError(
                f"temperature is {self.temperature}; allowed: 0, or at least {LOWEST_TEMPERATURE}"
            )
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise ValueError("temperature is 0; allowed with top_k or top_p: more than 0")
        return self


def greedy(logits: Tensor) -> Tensor:
    """(B, V) -> (B)

    The most likely tokens.
    """
    return logits.argmax(-1)


def draw_noise(logits: Tensor, random: torch.Generator) -> Tensor:
    """(B, V) -> (B, V)

    The random numbers of one choice by `sample`.
    """
    return torch.empty_like(logits).exponential_(generator=random)


def sample(logits: Tensor, sampling: Sampling, noise: Tensor) -> Tensor:
    """(B, V), (B, V) -> (B)

    Random tokens, by temperature, top-k and top-p. The token with the largest quotient of probability and
    exponential noise has the wanted probability (the exponential race, as in `torch.multinomial`).
    """
    order = None
    if sampling.top_k or sampling.top_p < 1:
        size = logits.shape[-1]
        logits, order = logits.topk(min(sampling.top_k or size, size))
        noise = noise.gather(-1, order)
    likely = (logits / sampling.temperature).softmax(-1)
    if sampling.top_p < 1:
        # A token is left out if those before it already have the total probability; the first one never is.
        likely = likely.masked_fill(likely.cumsum(-1) - likely >= sampling.top_p, 0.0)
    best = (likely / noise).argmax(-1, keepdim=True)
    return (best if order is None else order.gather(-1, best)).squeeze(-1)
