"""The same code for one process or several. `torchrun --nproc-per-node 2 -m limelight train …` starts two."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

CPU = torch.device("cpu")


@dataclass(frozen=True)
class World:
    """The processes that train one model together. Only rank 0 reads and writes the run folder."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this process has rank 0."""
        return self.rank == 0

    def all_reduce(self, numbers: list[float]) -> list[float]:
        """Each number, summed over all processes in float64."""
        if self.size == 1:
            return numbers
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def all_reduce_gradient(self, gradient: Tensor) -> None:
        """Sum the gradient over all processes, in place. A process without examples contributes zeros."""
        if self.size > 1:
            dist.all_reduce(gradient)

    def broadcast(self, content: bytes) -> bytes:
        """The bytes of rank 0, on every process."""
        if self.size == 1:
            return content
        length = torch.tensor([len(content)], device=self.device)
        dist.broadcast(length, 0)
        buffer = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        if self.first and content:
            buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(buffer, 0)
        return buffer.cpu().numpy().tobytes()


def first_process() -> bool:
    """Whether this is the first process of torchrun, or the only one."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """The processes that torchrun started, as a process group; without torchrun, a world of one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or dist.is_initialized():
        alone = not dist.is_initialized()
        yield World(device=device) if alone else World(dist.get_rank(), dist.get_world_size(), device)
        return
    if device.type == "cuda":  # one GPU per process
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size(), device)
        dist.barrier()  # a process that exits early breaks the connections of the others
    finally:
        dist.destroy_process_group()
        gc.collect()  # a group that survives until interpreter shutdown can crash it
