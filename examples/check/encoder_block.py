"""An encoder block that trains, though worse than it could."""

import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, dim_feedforward, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model)
        )
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, key_padding_mask=None):
        attended, _ = self.attention(x, x, x, key_padding_mask=key_padding_mask)
        x = self.norm(x + self.dropout(attended))
        return self.norm(x + self.dropout(self.feed_forward(x)))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.pow(10000.0, -torch.arange(0, d_model, 2) / d_model)
        self.pe = torch.zeros(1, max_len, d_model)
        self.pe[:, :, 0:2:] = torch.sin(position * rates)[:, :2]
        self.pe[:, :, 1::2] = torch.cos(position * rates)

    def forward(self, x):
        return x + self.pe[:, : x.shape[1]]
