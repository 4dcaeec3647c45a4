"""One causal multi-head attention over a sentence, and what each of its heads looks at.

The weights are as they were born, untrained: what there is to see is the mask. Nothing stands to the
right of the diagonal, because no word may look at one that comes after it.

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
    parser.add_argument("words", nargs="*", default=SENTENCE.split(), help="a sentence of your own")
    words = parser.parse_args().words
    torch.manual_seed(1)
    vocabulary = sorted(set(words))
    embedding = torch.nn.Embedding(len(vocabulary), WIDTH)
    positions = SinusoidalPositions(WIDTH)
    attention = MultiHeadAttention(WIDTH, HEADS)

    ids = torch.tensor([[vocabulary.index(word) for word in words]])
    with torch.no_grad(), watch(attention) as seen:
        attention(positions(embedding(ids)), causal=True)
    weights = seen["weights"][0][0]

    target = Path("runs/demo/causal_attention.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    title = "causal attention, untrained: each word looks back only"
    draw_attention(weights, words, title=title).savefig(target, dpi=150)

    ahead = weights.triu(1).sum()
    print(f"{HEADS} heads over {len(words)} words; weight on words that come later: {ahead:g}")
    print(f"drawn: {target}")


if __name__ == "__main__":
    main()
