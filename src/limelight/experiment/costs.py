"""The cost of a layer: multiply-adds of one forward call with a batch. Only matrix products count."""

from typing import Any

from torch import Tensor, nn

from limelight.nn import AdditiveAttention, MultiHeadAttention, Packing


def sequence(value: Any) -> Any:
    """The sequence in an input or output: a GRU returns (outputs, state), a PackedSequence is (data, ...)."""
    return sequence(value[0]) if isinstance(value, tuple) else value


def multiply_adds(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> int:
    """The multiply-adds of the call part(*given, **named), which returned `result`."""
    if isinstance(part, MultiHeadAttention):
        return _multi_head(part.width, *given, **named)
    if isinstance(part, AdditiveAttention):
        return _additive(part, *given, **named)
    if isinstance(part, nn.GRU):
        return _recurrent(part, sequence(given[0]))
    return result.numel() * part.in_features if isinstance(part, nn.Linear) else 0


def _multi_head(width: int, queries: Tensor, memory: Tensor | None = None, *_: Any, **named: Any) -> int:
    """Four projections of real tokens; scores and weighted sum, 2·T·S·D per sequence, padding included."""
    packing: Packing | None = named.get("packing")
    memory_packing = packing if memory is None else named.get("memory_packing")
    memory = queries if memory is None else memory
    batch, length = (packing.batch, packing.length) if packing else queries.shape[:2]
    memory_length = memory_packing.length if memory_packing else memory.shape[1]
    return 2 * width * (queries.numel() + memory.numel() + batch * length * memory_length)


def _additive(part: AdditiveAttention, queries: Tensor, memory: Tensor, *_: Any, **named: Any) -> int:
    """Scores T·S·A and weighted sum T·S·M per sequence, with padding; projections are layers of their own."""
    return queries.shape[1] * memory.shape[0] * memory.shape[1] * (part.width + part.memory_width)


def _recurrent(part: nn.GRU, inputs: Tensor) -> int:
    """Each item is multiplied by each matrix once: 3·D·(in + D) per layer and direction."""
    items = inputs.numel() // part.input_size
    return items * sum(weight.numel() for weight in part.parameters() if weight.dim() == 2)
