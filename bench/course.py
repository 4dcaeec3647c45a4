"""Reversal as in a course: single items from a Dataset, explicit attention, post-norm.

The sizes, the optimiser and its settings are those of the UvA deep learning course, tutorial 6 (Lippe 2022):
one layer, one head, width 32, feed-forward 64, one-hot symbols, Adam at 5e-4 with 50 steps of warm-up and a
cosine over ten epochs, gradients clipped at 5, batches of 128.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SYMBOLS, LENGTH, WIDTH, HIDDEN, BATCH, EPOCHS = 10, 16, 32, 64, 128, 10


class Reversal(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.rows[i], self.rows[i].flip(0)


def loader(rows: Tensor, train: bool) -> DataLoader[tuple[Tensor, Tensor]]:
    return DataLoader(Reversal(rows), batch_size=BATCH, shuffle=train, drop_last=train)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        for layer in (self.qkv, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(WIDTH)).softmax(-1)
        return self.output((weights @ v).squeeze(1))


class Predictor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        position, even = torch.arange(LENGTH).unsqueeze(1), torch.arange(0, WIDTH, 2)
        angle = position * torch.exp(even * (-math.log(10000.0) / WIDTH))
        self.register_buffer("sinusoids", torch.stack((angle.sin(), angle.cos()), -1).flatten(1))
        self.input = nn.Sequential(nn.Dropout(0.0), nn.Linear(SYMBOLS, WIDTH))
        self.attention = Attention()
        self.feedforward = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), nn.Dropout(0.0), nn.ReLU(inplace=True), nn.Linear(HIDDEN, WIDTH)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.dropout = nn.Dropout(0.0)
        self.output = nn.Sequential(
            nn.Linear(WIDTH, WIDTH),
            nn.LayerNorm(WIDTH),
            nn.ReLU(inplace=True),
            nn.Dropout(0.0),
            nn.Linear(WIDTH, SYMBOLS),
        )

    def forward(self, symbols: Tensor) -> Tensor:
        x = self.input(F.one_hot(symbols, SYMBOLS).float()) + self.sinusoids
        x = self.norms[0](x + self.dropout(self.attention(x)))
        x = self.norms[1](x + self.dropout(self.feedforward(x)))
        return self.output(x)


def loss_and_accuracy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    symbols, labels = batch
    logits = model(symbols)
    loss = F.cross_entropy(logits.view(-1, SYMBOLS), labels.view(-1))
    return loss, (logits.argmax(-1) == labels).float().mean()


def optimiser(
    model: nn.Module, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    adam = torch.optim.Adam(model.parameters(), lr=5e-4)
    rate = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: min(1.0, step / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
    )
    return adam, rate
