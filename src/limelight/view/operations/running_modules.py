"""The module of a model that is running."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# Attention that is computed inside these belongs to the module that contains them.
PARTS_OF_OTHERS = (nn.Softmax, nn.Dropout, nn.Identity)


class RunningModules:
    """Follows which module of a model is running.

    Its hooks are global: those of a single module would make torch leave its fast paths.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names = {id(part): name for name, part in model.named_modules()}
        self._running: list[nn.Module] = []

    @property
    def current(self) -> tuple[str, nn.Module]:
        """The name of the innermost module that is running, and the module."""
        for module in reversed(self._running):
            if not isinstance(module, PARTS_OF_OTHERS) and id(module) in self._names:
                return self._names[id(module)], module
        return "", self._model

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the calls as long as the context is open."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            self._running.clear()

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        while self._running and self._running.pop() is not module:
            pass  # a call inside it that was broken off
