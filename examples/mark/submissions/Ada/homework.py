"""Homework 3."""

import math

import torch
from torch import nn


def scaled_dot_product_attention(q, k, v, mask=None):
    energy = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        energy = energy.masked_fill(~mask, -math.inf)
    weights = torch.softmax(energy, dim=-1)
    return weights @ v, weights


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(position * rates)
        table[:, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.shape[1]]
