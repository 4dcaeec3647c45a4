"""Which words of a source the words of its translation come from, as cross-attention says."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from limelight.tasks.task import Answer
from limelight.tasks.translate.task import Translate
from limelight.view import watch

Alignment = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CrossAttention:
    """Of one sentence: the maps (H, T, S) of each layer; row t is what was looked at to write token t."""

    layers: list[Tensor]
    source: Tensor  # (S), with its end mark
    target: Tensor  # (T), with its end mark

    def words(self, source: list[int], target: list[int]) -> Alignment:
        """For each word of the target the word of the source that its tokens look at most.

        The arguments say which word each token belongs to. The heads of the last layer speak together.
        """
        if not source or not target:
            return ()
        weights_TS = self.layers[-1].mean(0)[: len(target), : len(source)]
        by_source_TW = torch.zeros(len(target), max(source) + 1)
        by_source_TW.index_add_(1, torch.tensor(source), weights_TS)
        by_both_WW = torch.zeros(max(target) + 1, by_source_TW.shape[1])
        by_both_WW.index_add_(0, torch.tensor(target), by_source_TW)
        return tuple((int(word), place) for place, word in enumerate(by_both_WW.argmax(1)))


@torch.no_grad()
def look(model: nn.Module, task: Translate, source: Tensor, target: Tensor) -> CrossAttention:
    """(S), (T) -> what the model looks at while it writes this target, given with its end mark"""
    device = next(model.parameters()).device
    written = torch.cat((torch.tensor([task.target.begin]), target[:-1]))
    with watch(model) as seen:
        model.eval()(source.unsqueeze(0).to(device), written.unsqueeze(0).to(device))
    # A recurrent decoder looks once a token, a Transformer once in all.
    maps = [torch.cat(passes, 2)[0].cpu() for name, passes in seen.items() if "self_attention" not in name]
    return CrossAttention(maps, source, target)


def align(model: nn.Module, task: Translate, line: str, answer: Answer) -> Answer:
    """The answer and the others, each with its alignment: pairs of words, as white space separates them."""
    if not line.strip():
        return answer
    others = tuple(align(model, task, line, other) for other in answer.others)
    source, target = task.source.encode(line), task.target.encode(answer.text)
    seen = look(model, task, source, target)
    words = task.source.words(line), task.target.words(answer.text)
    return replace(answer, others=others, alignment=seen.words(*words))
