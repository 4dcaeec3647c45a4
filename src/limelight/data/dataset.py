"""What every source of sequences gives: splits, how a line is read, what is to be said."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field

from limelight.data.batching import Examples
from limelight.data.ragged import Ragged
from limelight.data.readers import Answers, Symbols, Vectors
from limelight.data.vocabulary import Characters, Subwords, Words

SPLITS = ("train", "validation", "test")

Reader = Annotated[Symbols | Vectors | Words | Characters | Subwords, Field(discriminator="kind")]


@dataclass(frozen=True)
class SequenceData:
    splits: dict[str, Examples]
    reader: Reader
    answers: Answers
    notes: tuple[str, ...] = ()
    cut: int | None = None  # items beyond which sequences were cut off

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
