"""Linear layers with the faster of the two libraries for matrix products that torch contains.

torch multiplies float32 matrices with MKL, which uses AVX-512 on CPUs of Intel only. On others, oneDNN takes
less than half of the time for matrices that are not small.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 2**21  # multiplications; for fewer, the call of oneDNN takes longer than the product


def cpu_features() -> dict[str, Any]:
    """The name of this CPU and the sets of instructions that it has; empty if torch does not know them."""
    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return features


def _prefers_onednn() -> bool:
    """Whether this CPU has AVX-512, but is not of Intel."""
    features = cpu_features()
    available = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return bool(available and features.get("avx512_f") and "Intel" not in features.get("cpu_name", "Intel"))


ONEDNN = _prefers_onednn()
LARGE_MATRIX = 2**17  # numbers in a matrix, from which on a product with one row is limited by reading it
_in_functorch: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
SUMS_ROWS = "fbgemm" in torch.backends.quantized.supported_engines


class Linear(nn.Linear):
    """W x + b: `torch.nn.Linear`, and faster on some CPUs."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., E)"""
        if _is_faster(x, self.weight) and not is_transformed():
            return cast(Tensor, _Linear.apply(x, self.weight, self.bias))  # type: ignore[no-untyped-call]
        return F.linear(x, self.weight, self.bias)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(N, D), (E, D), (E) -> (N, E)

    x Wᵀ + b, without a gradient.
    """
    if _is_faster(x, weight):
        return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], ""))
    return F.linear(x, weight, bias)


def times(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """(B, D), (D, E), (E) -> (B, E)

    x M + b, without a gradient, for few rows. One row times a matrix is a weighted sum of the rows of the
    matrix. Computed as that of an embedding bag, it reads a matrix that is not in the cache of the CPU twice
    as fast as a matrix product does.
    """
    if len(x) > 1 and _is_faster(x, matrix.t()):
        return product(x, matrix.t(), bias)
    if len(x) == 1 and SUMS_ROWS and matrix.numel() >= LARGE_MATRIX and is_plain(x, matrix):
        rows, start = _all_rows(len(matrix))
        out = torch.embedding_bag(matrix, rows, start, False, 0, False, x[0])[0]
        return out if bias is None else out.add_(bias)
    return torch.mm(x, matrix) if bias is None else torch.addmm(bias, x, matrix)


def pack(matrix: Tensor) -> Tensor:
    """(D, E) -> (D, e) of bytes

    The numbers of a matrix as integers of eight bits, with a scale and an offset for each row.
    """
    return cast(Tensor, torch.ops.quantized.embedding_bag_byte_prepack(matrix))


def times_packed(x: Tensor, packed: Tensor, bias: Tensor) -> Tensor:
    """(1, D), (D, e), (E) -> (1, E)

    x M + b for one row and a packed matrix. It reads a quarter of the memory; the error is about 1 %.
    """
    rows, start = _all_rows(len(packed))
    multiply = torch.ops.quantized.embedding_bag_byte_rowwise_offsets.default
    return cast(Tensor, multiply(packed, rows, start, False, 0, False, x[0])).add_(bias)


@lru_cache
def _all_rows(count: int) -> tuple[Tensor, Tensor]:
    """-> (D), (1), the indices of all rows, and the start of the only bag"""
    return torch.arange(count, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)


def is_plain(x: Tensor, weight: Tensor) -> bool:
    """Whether both are float32 numbers on a CPU, without mixed precision."""
    return (
        x.dtype == weight.dtype == torch.float32
        and x.is_cpu
        and weight.is_cpu
        and not torch.is_autocast_enabled("cpu")
    )


def _is_faster(x: Tensor, weight: Tensor) -> bool:
    return (
        ONEDNN
        and x.numel() * len(weight) >= LARGE
        and x.shape[-1:] == weight.shape[1:]
        and is_plain(x, weight)
    )


def is_transformed() -> bool:
    """Whether torch.compile, export, torch.func or forward-mode derivatives need torch's own operation."""
    return (
        torch.compiler.is_compiling()
        or torch.compiler.is_exporting()
        or _in_functorch()
        or torch.autograd.forward_ad._current_level >= 0
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(..., D), (E, D), (E) -> (..., E)"""
        context.save_for_backward(x, weight)
        return product(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """(..., E) -> (..., D), (E, D), (E)"""
        multiply = _differentiable_product if torch.is_grad_enabled() else product
        needs_x, needs_weight, needs_bias = context.needs_input_grad
        x, weight = context.saved_tensors
        shape, width = x.shape, len(weight)
        grad_NE = gradient.reshape(-1, width)
        grad_bias = grad_NE.sum(0) if needs_bias else None
        grad_weight = None
        if needs_weight:  # oneDNN copies its first argument: the smaller one
            x_ND = x.reshape(-1, shape[-1])
            wide = width > shape[-1]
            grad_weight = multiply(x_ND.T, grad_NE.T).T if wide else multiply(grad_NE.T, x_ND.T)
            del x_ND
        del x  # it may have been computed again for this product
        grad_x = multiply(grad_NE, weight.T).view(shape) if needs_x else None
        return grad_x, grad_weight, grad_bias


def _differentiable_product(x: Tensor, weight: Tensor) -> Tensor:
    """(N, D), (E, D) -> (N, E), for a derivative of the gradient"""
    return F.linear(x, weight)
