import pytest
import torch


@pytest.fixture(autouse=True)
def _same_seed_for_every_test() -> None:
    torch.manual_seed(1)
