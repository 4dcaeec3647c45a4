"""Switches dropout off, whatever the checked code does about training and evaluation."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@contextmanager
def dropout_off() -> Iterator[None]:
    """Inside this context, dropout does nothing, and all random draws begin with the same seed."""
    before = functional.dropout, functional.scaled_dot_product_attention

    def attention(*args: Any, **options: Any) -> Tensor:
        if len(args) > 4:
            args = (*args[:4], 0.0, *args[5:])
        return before[1](*args, **options | ({"dropout_p": 0.0} if "dropout_p" in options else {}))

    functional.dropout = _no_dropout
    functional.scaled_dot_product_attention = attention
    torch.default_generator.manual_seed(7)
    random.seed(7)  # some models draw how often they get the right token
    try:
        yield
    finally:
        functional.dropout, functional.scaled_dot_product_attention = before


def _no_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return input
