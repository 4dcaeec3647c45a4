"""Settings that all Transformer models share."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from torch import nn

from limelight.models.config import ModelConfig
from limelight.nn import AttentionVariant, BlockConfig, Frequencies, LearnedPositions, SinusoidalPositions

Activation = Literal["relu", "gelu", "gelu-tanh", "silu"]
ACTIVATION = (
    "activation function of a plain feed-forward network; gelu-tanh: the approximation of GELU in GPT-2; "
    "silu: x · sigmoid(x), as in Marian"
)
Norm = Literal["post", "pre", "post-rms", "pre-rms"]
NORM = (
    "layer norm after each residual connection (post) or before each sub-layer (pre); "
    "post-rms, pre-rms: an RMS norm instead"
)
Positions = Literal[
    "none", "sinusoidal", "sinusoidal-halves", "learned", "rotary", "rotary-interleaved", "alibi"
]
POSITIONS = (
    "positional encoding: none; fixed sinusoids or learned vectors, added to the inputs (sinusoidal-halves "
    "has all sines before all cosines, as in Marian); rotations of "
    "queries and keys (rotary pairs the halves of a head, as in Llama; rotary-interleaved pairs neighbours); "
    "or alibi, a bias for the distance"
)
RELATIVE = ("rotary", "rotary-interleaved", "alibi")


def _as_tuple(value: Any) -> Any:
    """TOML has lists; settings must be hashable."""
    return tuple(value) if isinstance(value, list) else value


class BlockSettings(ModelConfig):
    """The settings of the blocks of a Transformer model."""

    width: int = Field(32, ge=1, le=65_536, description="model width: the size of the vector of a token")
    heads: int = Field(1, ge=1, le=65_536, description="attention heads per layer; a divisor of width")
    hidden: int = Field(64, ge=1, le=1_000_000, description="hidden units of the feed-forward network")
    activation: Activation = Field("relu", description=ACTIVATION)
    feedforward: Literal["plain", "swiglu", "geglu"] = Field(
        "plain", description="feed-forward network: plain, or gated with SiLU (swiglu) or GELU (geglu)"
    )
    norm: Norm = Field("post", description=NORM)
    norm_epsilon: float | None = Field(
        None, gt=0, lt=1, description="ε of the norms; default: 1e-5 for layer norms, 1e-6 for RMS norms"
    )
    bias: Literal["all", "query-key-value", "none"] = Field(
        "all",
        description="which linear layers of the blocks have a bias; query-key-value: only the projections of "
        "queries, keys and values, as in Qwen 2; none: as in Llama",
    )
    key_value_heads: int | None = Field(
        None,
        ge=1,
        le=65_536,
        description="heads of keys and values, each shared by a group of query heads: grouped-query "
        "attention, with 1 multi-query attention; a divisor of heads; default: heads",
    )
    query_key_norm: bool = Field(
        False, description="whether queries and keys of each head pass an RMS norm before their product"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of the output of each sub-layer")
    inner_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="dropout probability of attention weights and feed-forward units; default: dropout",
    )

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads is {self.heads}; allowed: a divisor of width={self.width}")
        if self.key_value_heads and self.heads % self.key_value_heads:
            given = self.key_value_heads
            raise ValueError(f"key_value_heads is {given}; allowed: a divisor of heads={self.heads}")
        return self

    @property
    def attention_variant(self) -> AttentionVariant:
        """The variant of attention."""
        return AttentionVariant(self.key_value_heads, query_key_norm=self.query_key_norm)

    @property
    def block_config(self) -> BlockConfig:
        """The settings of one block, for an encoder or a decoder."""
        return BlockConfig(
            width=self.width,
            heads=self.heads,
            hidden=self.hidden,
            activation=self.activation,
            feedforward=self.feedforward,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            bias=self.bias,
            dropout=self.dropout,
            inner_dropout=self.inner_dropout,
            attention=self.attention_variant,
        )

    def _block_words(self, positions: str) -> list[str]:
        """The parts of a summary that all Transformers share."""
        heads = f"{count(self.heads, 'head')} of width {self.width // self.heads}"
        if self.key_value_heads not in (None, self.heads):
            heads += f" in {count(self.key_value_heads or 1, 'group')}"
        norm = f"{self.norm}-norm" if "-" not in self.norm else f"{self.norm.removesuffix('-rms')}-RMS-norm"
        gate = [] if self.feedforward == "plain" else [self.feedforward]
        return [heads, norm, f"{'no' if positions == 'none' else positions} positions", *gate]


class SequenceSettings(BlockSettings):
    """The settings of the blocks of a model of sequences, which have an order."""

    positions: Positions = Field("sinusoidal", description=POSITIONS)
    rotary_base: float = Field(
        10_000.0,
        gt=1,
        le=1e12,
        description="with rotary positions: pair i of a head of width K rotates by base^(-2i/K) per position",
    )
    rotary_scaling: Annotated[tuple[float, ...], BeforeValidator(_as_tuple)] = Field(
        (),
        description="with rotary positions, for longer texts than those of training: [factor] divides all "
        "frequencies; [factor, low, high, length] divides only low ones, as in Llama 3.1",
    )
    window: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="an item attends only to items that are less than this far away; 0: to all",
    )
    sinks: int = Field(
        0, ge=0, le=1_000_000, description="with a window: the first items, to which all may attend"
    )

    @model_validator(mode="after")
    def _scaling_is_complete(self) -> Self:
        given = self.rotary_scaling
        if len(given) not in (0, 1, 4) or any(value <= 0 for value in given):
            raise ValueError(
                f"rotary_scaling is {list(given)}; allowed: [], [factor] or [factor, low, high, length]"
            )
        if len(given) == 4 and not given[1] < given[2]:
            raise ValueError(f"rotary_scaling is {list(given)}; allowed: low < high")
        return self

    @model_validator(mode="after")
    def _rotations_need_pairs(self) -> Self:
        if self.positions.startswith("rotary") and self.width // self.heads % 2:
            size = self.width // self.heads
            raise ValueError(f"heads is {self.heads}, of width {size}; allowed with rotary: an even width")
        return self

    @property
    def attention_variant(self) -> AttentionVariant:
        """The variant of attention."""
        return AttentionVariant(
            self.key_value_heads,
            self.positions if self.positions in RELATIVE else "none",
            self.query_key_norm,
            self.window,
            self.sinks,
            self._frequencies,
        )

    @property
    def _frequencies(self) -> Frequencies:
        """The frequencies of rotary positions."""
        if len(self.rotary_scaling) < 4:
            return Frequencies(self.rotary_base, factor=next(iter(self.rotary_scaling), 1.0))
        factor, low, high, original = self.rotary_scaling
        return Frequencies(self.rotary_base, factor, low, high, int(original))


def build_positions(kind: str, width: int, longest: int) -> nn.Module:
    """Positions that are added to the inputs: sinusoidal, learned (for at most `longest` items), or none."""
    if kind == "none" or kind in RELATIVE:
        return nn.Identity()
    if kind == "learned":
        return LearnedPositions(width, longest)
    return SinusoidalPositions(width, layout="halves" if kind == "sinusoidal-halves" else "interleaved")


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 layer", "2 layers"."""
    return f"{number} {noun}{'s' * (number > 1)}"
