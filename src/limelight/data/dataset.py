"""What every source of sequences gives: splits, how a line is read, what is to be said."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from pydantic import Field

from limelight.data.batching import Examples
from limelight.data.ragged import Ragged
from limelight.data.text.symbols import Answers, Symbols, Vectors
from limelight.data.text.vocabulary import Characters, Subwords, Words

# More are a typing error: the memory check refuses far fewer.
ExampleCount = Annotated[int, Field(ge=1, le=1_000_000_000)]
SPLITS = ("train", "validation", "test")

Reader = Annotated[Symbols | Vectors | Words | Characters | Subwords, Field(discriminator="kind")]


@dataclass(frozen=True)
class SequenceData:
    splits: dict[str, Examples]
    reader: Reader
    answers: Answers
    notes: tuple[str, ...] = ()
    cut: int | None = None  # items beyond which sequences were cut off
    texts: dict[str, list[str]] = field(default_factory=dict)  # by split, as they were before they were read
    column: str = ""  # of a table: the one that the texts stand in
    header: bool = False  # of a table: whether its first row has the names of the columns

    @cached_property
    def digest(self) -> str:
        """Changes when any example does: a run goes on only with the data it began with."""
        whole = hashlib.sha256(f"{self.reader.model_dump_json()}{self.answers.model_dump_json()}".encode())
        for name, examples in self.splits.items():
            whole.update(name.encode())
            for part in (examples.inputs, examples.targets):
                tensors = (part.values, part.offsets) if isinstance(part, Ragged) else (part,)
                for tensor in tensors:
                    whole.update(tensor.contiguous().numpy().tobytes())
        return whole.hexdigest()
