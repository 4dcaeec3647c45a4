"""The parts of a Transformer: modules and functions from tensors to tensors.

The name of a local tensor ends in its axes, one letter each:

    B  batch                            D  model width
    T  query (target) positions         H  heads
    S  key (source) positions           K  width of one head (of a key)
    N  real tokens of a packed batch    F  feed-forward width
    U  real tokens of a packed memory   E  width of an embedding that is not D
    V  vocabulary                       P  patches
    L  classes (labels)                 C, Y, X  image channels, rows, columns
    M  width of the memory              Q  width of a query that is not D
    A  width of additive attention      W  width of a value
    R  rows selected from a batch       G  batch × heads, as one axis
    Z  layers                           a lower-case letter: a part of that axis

The first line of a tensor function's docstring is its arrow line: `(B, T, D) -> (B, T, D)` gives the shapes
of its inputs and outputs. `B|1` is an axis that may be 1; `...` stands for any leading axes. The batch is
always the first axis. Masks are boolean, and True means "may attend".
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
from limelight.nn.blocks import BlockConfig, DecoderBlock, EncoderBlock
from limelight.nn.cache import Cache, CausalCache, DecoderCache, KeyValues
from limelight.nn.dropout import Dropout, dropout
from limelight.nn.feedforward import FeedForward, GatedFeedForward
from limelight.nn.kernels.cross_entropy import cross_entropy
from limelight.nn.kernels.fast_decoder import FastDecoder
from limelight.nn.kernels.fast_decoder_only import FastDecoderOnly
from limelight.nn.kernels.fast_parts import FastCache
from limelight.nn.kernels.packing import Packing
from limelight.nn.masks import causal_mask, padding_mask, window_mask
from limelight.nn.multihead import AttentionVariant, MultiHeadAttention
from limelight.nn.norms import RMSNorm
from limelight.nn.patches import PatchEmbedding
from limelight.nn.positions import GridPositions, LearnedPositions, SinusoidalPositions, sinusoids
from limelight.nn.relative_positions import Alibi, Frequencies, Rotary, alibi_slopes, rotate, rotation_table
from limelight.nn.stacks import Decoder, DecoderOnly, Encoder
from limelight.nn.tap import Tap

__all__ = [
    "AdditiveAttention",
    "Alibi",
    "AttentionVariant",
    "BlockConfig",
    "Cache",
    "CausalCache",
    "Decoder",
    "DecoderBlock",
    "DecoderCache",
    "DecoderOnly",
    "Dropout",
    "Encoder",
    "EncoderBlock",
    "FastCache",
    "FastDecoder",
    "FastDecoderOnly",
    "FeedForward",
    "Frequencies",
    "GatedFeedForward",
    "GridPositions",
    "KeyValues",
    "LearnedPositions",
    "MultiHeadAttention",
    "Packing",
    "PatchEmbedding",
    "RMSNorm",
    "Rotary",
    "SinusoidalPositions",
    "Tap",
    "additive",
    "alibi_slopes",
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
    "rotate",
    "rotation_table",
    "scaled_dot",
    "sinusoids",
    "window_mask",
]
