"""Changes of attention that a page asks for: heads that are switched off, and cells that are blocked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from torch import nn

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.view.intervene import Intervention, blocked, intervene, off

MOST = 256  # changes of one input

Position = Annotated[int, Field(ge=0)]


class Change(Config):
    """A head that is switched off, or that may not attend from one position to another."""

    name: str = Field(description="the attention module, as in the maps of a record")
    head: Position | None = Field(None, description="the head; all heads of the module if it is left out")
    query: Position | None = Field(None, description="the query that may not attend to `key`")
    key: Position | None = Field(None, description="the key that `query` may not attend to")

    @property
    def intervention(self) -> Intervention:
        """The same for `intervene`."""
        heads = () if self.head is None else (self.head,)
        if self.query is None or self.key is None:
            return off(*heads)
        return blocked(self.query, self.key, *heads)


@dataclass(frozen=True)
class Changed:
    """An input for a model whose attention is changed."""

    given: Any  # what a task reads: a line of text, an image, a sequence, or a Prompt
    changes: tuple[Change, ...]


@contextmanager
def changing(model: nn.Module, changes: Sequence[Change]) -> Iterator[None]:
    """Apply the changes while the context is open."""
    names = dict.fromkeys(one.name for one in changes)
    together = {name: [one.intervention for one in changes if one.name == name] for name in names}
    with intervene(model, together):
        yield


def read_changes(text: str) -> tuple[Change, ...]:
    """The changes in a JSON list."""
    try:
        found = TypeAdapter(Annotated[tuple[Change, ...], Field(max_length=MOST)]).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, ("changes", *first["loc"])))
        raise WrongInput(f"{place}: {first['msg']}") from None
    for one in found:
        if (one.query is None) != (one.key is None):
            raise WrongInput("changes: a blocked cell has a query and a key")
    return found
