"""A task of your own: fill the gaps in a numeric time series.

limelight train examples/own_task.py
limelight predict runs/gaps "0.00 0.39 0.72 ? 1.00 ? 0.67 0.33 ? -0.45 -0.76 -0.96 ? -0.95 -0.75"
limelight see runs/gaps
"""

from typing import Literal

import torch

from limelight import plugin as ll

RECIPE = {
    "name": "gaps",
    "about": "fill the gaps in a numeric time series",
    "task": {"kind": "gaps", "data": {}},
    "model": {"kind": "labeller", "width": 32, "heads": 4, "depth": 2, "hidden": 64, "norm": "pre"},
    "train": {"epochs": 15, "rate": 3e-3},
}


class Sinusoids(ll.Config):
    def load(self, seed):
        splits, texts = {}, {}
        for split, count in {"train": 4000, "validation": 200, "test": 200}.items():
            period, phase, gaps = torch.rand(3, count, 24, generator=ll.generator(seed, split))
            values = torch.sin(torch.arange(24) / (1 + 2 * period[:, :1]) + 6.3 * phase[:, :1])
            known = (gaps > 0.25).float()
            items = torch.stack((values * known, known), -1)  # a gap is (0, 0)
            splits[split] = ll.Examples(ll.Ragged.from_tensor(items), values)
            texts[split] = [" ".join(f"{v:.2f}" if k else "?" for v, k in row) for row in items.tolist()]
        return ll.SequenceData(splits, ll.Vectors(features=2), ll.Answers(kind="number"), texts=texts)


class FillGaps(ll.SequenceTask):
    def encode(self, given, number=1):
        if isinstance(given, str):
            given = torch.tensor(
                [[0.0, 0.0] if word == "?" else [float(word), 1.0] for word in given.split()]
            )
        return super().encode(given, number)

    def tokens(self, given, items):
        return [f"{value:.1f}" if known else "?" for value, known in items.tolist()]

    def predictions(self, batch):
        return batch.tokens

    def loss(self, model, batch, smoothing=0.0):
        difference = model(*self.arguments(batch)).squeeze(-1) - batch.targets
        loss = difference.square().sum()
        return ll.Scores(loss, {"loss": loss.detach(), "mae": difference.detach().abs().sum()})


@ll.register
class GapsConfig(ll.SequenceTaskConfig):
    task, models = FillGaps, (ll.LabellerConfig,)
    kind: Literal["gaps"] = "gaps"
    data: Sinusoids
