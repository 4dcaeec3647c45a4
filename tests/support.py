"""Helpers for several tests. Sizes are distinct primes, so that swapped axes are noticed."""

import random
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn

from limelight.bridge import from_torch
from limelight.errors import WrongInput

Value = TypeVar("Value")
Module = TypeVar("Module", bound=nn.Module)

B, T, S, H, K = 3, 5, 7, 2, 11
D = H * K
HIDDEN = 29
# A long sequence beside the short ones.
MANY = 67

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 0.0}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def must_fail(check: Callable[..., Any], *broken: Any) -> None:
    """The negative control: a check must fail for a deliberately broken variant."""
    with pytest.raises(AssertionError):
        check(*broken)


def not_none(value: Value | None) -> Value:
    """The value, which the test expects not to be None."""
    assert value is not None
    return value


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a fixed random linear combination of the output, so that errors do not cancel."""
    mixture = torch.randn(output.shape, generator=torch.Generator().manual_seed(7)).to(output.dtype)
    return torch.autograd.grad(output, inputs, mixture, retain_graph=True, materialize_grads=True)


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All tensors as one, compared on one scale: the gradient of a key bias is only rounding error."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def random_mask(*shape: int, allowed: float = 0.6) -> Tensor:
    """A random mask with at least one key for each query."""
    mask = torch.rand(shape) < allowed
    mask[..., 0] = True
    return mask


def assert_same(got: Tensor, expected: Tensor) -> None:
    """float32: each element, to 1e-5 of the largest. bfloat16: the norm of the difference, to 4 %, because
    rounding can move a single element across the kink of a ReLU."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if got.dtype == torch.bfloat16:
        difference = (got.float() - expected.float()).norm()
        assert difference <= 0.04 * expected.float().norm() + 1e-3, difference / expected.float().norm()
    else:
        scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * scale)


def roughen(module: Module) -> Module:
    """Random norms and biases, so that swapping two of them is noticed."""
    for name, parameter in module.named_parameters():
        if "norm" in name or "bias" in name:
            nn.init.uniform_(parameter, 0.5, 1.5)
    return module


def convert_gradients(theirs: Any, gradients: Iterable[Tensor]) -> nn.Module:
    """Our counterpart of torch.nn's module, with gradients in the place of its parameters."""
    with torch.no_grad():
        for parameter, gradient in zip(theirs.parameters(), gradients, strict=True):
            parameter.copy_(gradient)
    converted: nn.Module = from_torch(theirs)
    return converted


def check_equivariance(function: Callable[[Tensor], Tensor]) -> None:
    """Permuted inputs give permuted outputs."""
    x = torch.randn(B, T, D)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(function(x[:, order]), function(x)[:, order], rtol=1e-5, atol=1e-6)


def check_causality(function: Callable[[Tensor], Tensor]) -> None:
    """Output t has exactly zero gradient to every input after t."""
    for length in (T, MANY):
        x = torch.randn(B, length, D, requires_grad=True)
        output = function(x)
        for t in range(length):
            (gradient,) = gradients(output[:, t], x)
            assert gradient[:, t + 1 :].eq(0).all(), f"output {t} depends on a later input"
            assert gradient[:, : t + 1].ne(0).any(-1).all(), f"output {t} ignores an earlier input"


def heads_by_hand(weights: dict[str, Tensor], biases: dict[str, Tensor], x: Tensor, memory: Tensor) -> Tensor:
    """Each head from its own rows of W_q, W_k and W_v, in float64; concatenated, times W_o."""
    weights = {name: weight.double() for name, weight in weights.items()}
    biases = {name: bias.double() for name, bias in biases.items()}
    heads = []
    for h in range(H):
        rows = slice(h * K, (h + 1) * K)
        q, k, v = (
            inputs.double() @ weights[name][rows].T + biases[name][rows]
            for inputs, name in ((x, "query"), (memory, "key"), (memory, "value"))
        )
        heads.append((q @ k.transpose(-2, -1) / K**0.5).softmax(-1) @ v)
    return torch.cat(heads, -1) @ weights["output"].T + biases["output"]


def mutated(content: bytes, marks: Sequence[bytes], draw: random.Random) -> bytes:
    """The content with one to three faults that disks, editors, spreadsheets and downloads cause."""
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(content) + 1)
        mark = draw.choice(marks)
        flipped = bytes(byte ^ 1 << draw.randrange(8) for byte in content[at : at + 1])
        content = draw.choice(
            [
                content[:at],
                content[at:],
                content[:at] + mark + content[at:],
                content.replace(mark, b"", draw.randint(1, 7)),
                content.replace(mark, mark * 2, draw.randint(1, 7)),
                content[:at] + draw.randbytes(draw.randint(1, 11)) + content[at:],
                content[:at] + flipped + content[at + 1 :],
                content[:at] + flipped + content[at + 1 :],
                draw.randbytes(draw.randint(0, 67)),
            ]
        )
    return content


def check_same_seed_same_weights(build: Callable[[], nn.Module]) -> None:
    def initial(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return build().state_dict()

    one, again, other = initial(1), initial(1), initial(2)
    for name in one:
        torch.testing.assert_close(one[name], again[name], **EXACT)
    assert any(not one[name].equal(other[name]) for name in one)


def refused(call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """The message of the error for invalid input; empty if the call accepts it."""
    try:
        call(*arguments, **named)
    except WrongInput as error:
        return str(error)
    return ""


STARTED: list[subprocess.Popen[str]] = []  # the processes that a test has started


def kill_started() -> Iterator[None]:
    """A fixture for modules that start processes: a test that fails leaves none behind."""
    yield
    while STARTED:
        with STARTED.pop() as process:
            process.kill()
