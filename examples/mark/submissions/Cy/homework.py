import math

import torch


def scaled_dot_product_attention(q, k, v, mask=None):
    """mask: True where a query may attend to a key."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


class Answer:
    while True:  # waits for an input that never comes
        pass
