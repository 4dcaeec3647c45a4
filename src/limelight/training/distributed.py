"""One process or many: the same code. `torchrun --nproc-per-node 2 -m limelight train …` starts many."""

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
    """The processes that compute one run together. The one of rank 0 alone touches files."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        return self.rank == 0

    def add_up(self, numbers: list[float]) -> list[float]:
        """Each number, summed over all processes."""
        if self.size == 1:
            return numbers
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def add_up_gradient(self, gradient: Tensor) -> None:
        """In place. A process that had no example of a batch brings zeros."""
        if self.size > 1:
            dist.all_reduce(gradient)

    def hand_out(self, content: bytes) -> bytes:
        """What rank 0 has, for all."""
        if self.size == 1:
            return content
        length = torch.tensor([len(content)], device=self.device)
        dist.broadcast(length, 0)
        buffer = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        if self.first and content:
            buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(buffer, 0)
        return buffer.cpu().numpy().tobytes()


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """The world that torchrun started this process into, or a world of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or dist.is_initialized():
        alone = not dist.is_initialized()
        yield World(device=device) if alone else World(dist.get_rank(), dist.get_world_size(), device)
        return
    if device.type == "cuda":  # each process has a GPU of its own
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size(), device)
        dist.barrier()  # one that leaves while another still listens takes it down
    finally:
        dist.destroy_process_group()
        gc.collect()  # a group that lives until the interpreter ends takes it down with its threads
