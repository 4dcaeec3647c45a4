"""The parts of a Transformer: tensors in, tensors out, nothing else.

A local tensor's name ends in its axes, one letter each:

    B  batch                            D  model width
    T  query (target) positions         H  heads
    S  key (source) positions           K  width of one head (of a key)
    N  real tokens of a packed batch    F  feed-forward width
    V  vocabulary                       P  patches
    L  classes (labels)                 C, Y, X  image channels, rows, columns
    M  width of the memory              Q  width of a query that is not the model's
    A  width of additive attention      W  width of a value
    R  rows kept of a batch             a small letter: a piece of that axis

The first line of a tensor function's docstring is its arrow line: `(B, T, D) -> (B, T, D)` says what
goes in and what comes out, `B|1` that an axis may be 1, `...` any leading axes. Batch first, always;
masks are boolean and True means "may attend".
"""

from limelight.nn.additive import AdditiveAttention
from limelight.nn.attention import (
    additive,
    attend,
    attention_weights,
    dot,
    gaussian,
    masked_softmax,
    pool,
    scaled_dot,
)
from limelight.nn.blocks import DecoderBlock, EncoderBlock
from limelight.nn.cache import Cache, DecoderCache, KeyValues
from limelight.nn.dropout import Dropout, dropout
from limelight.nn.feedforward import FeedForward
from limelight.nn.kernels.cross_entropy import cross_entropy
from limelight.nn.kernels.fast_decoder import LeanCache, LeanDecoder
from limelight.nn.kernels.packing import Packing
from limelight.nn.masks import causal_mask, padding_mask
from limelight.nn.multihead import MultiHeadAttention
from limelight.nn.patches import PatchEmbedding
from limelight.nn.positions import GridPositions, LearnedPositions, SinusoidalPositions, sinusoids
from limelight.nn.stacks import Decoder, Encoder
from limelight.nn.tap import Tap

__all__ = [
    "AdditiveAttention",
    "Cache",
    "Decoder",
    "DecoderBlock",
    "DecoderCache",
    "Dropout",
    "Encoder",
    "EncoderBlock",
    "FeedForward",
    "GridPositions",
    "KeyValues",
    "LeanCache",
    "LeanDecoder",
    "LearnedPositions",
    "MultiHeadAttention",
    "Packing",
    "PatchEmbedding",
    "SinusoidalPositions",
    "Tap",
    "additive",
    "attend",
    "attention_weights",
    "causal_mask",
    "cross_entropy",
    "dot",
    "dropout",
    "gaussian",
    "masked_softmax",
    "padding_mask",
    "pool",
    "scaled_dot",
    "sinusoids",
]
