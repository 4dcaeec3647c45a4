"""The attention weights of every head of a causal multi-head attention over a sentence.

The model is untrained, so the figure shows only the effect of the mask: all weights to the right of the
diagonal are zero, because no word may attend to a later word.

    python examples/causal_attention.py --help
"""

import argparse
from pathlib import Path

import torch

from limelight.nn import MultiHeadAttention, SinusoidalPositions
from limelight.view import draw_attention, watch

SENTENCE = "the cat that chased the mouse was tired"
WIDTH, HEADS = 64, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("words", nargs="*", default=SENTENCE.split(), help="the words of a sentence")
    words = parser.parse_args().words
    torch.manual_seed(1)
    vocabulary = sorted(set(words))
    embedding = torch.nn.Embedding(len(vocabulary), WIDTH)
    positions = SinusoidalPositions(WIDTH)
    attention = MultiHeadAttention(WIDTH, HEADS)

    ids = torch.tensor([[vocabulary.index(word) for word in words]])
    with torch.no_grad(), watch(attention) as captured:
        attention(positions(embedding(ids)), causal=True)
    weights = captured["weights"][0][0]

    target = Path("runs/demo/causal_attention.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    title = "causal attention, untrained: each word attends to itself and earlier words"
    draw_attention(weights, words, title=title).savefig(target, dpi=150)

    later = weights.triu(1).sum()
    print(f"{HEADS} heads over {len(words)} words; total weight on later words: {later:g}")
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
