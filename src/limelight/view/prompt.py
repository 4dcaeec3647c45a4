"""The input of a page for language models: a text that grows token by token."""

from typing import Annotated

from pydantic import Field

from limelight.config import Config


class Prompt(Config):
    """A text, the tokens after it, and whether one more is added.

    The tokens are given by their ids, because their text may be a part of a character, and because the tokens
    of the whole text may be others.
    """

    given: str = Field(description="the text")
    tokens: tuple[Annotated[int, Field(ge=0)], ...] = Field((), description="ids of the tokens after it")
    temperature: float | None = Field(
        None, ge=0, description="sample one more token at this temperature; 0 takes the most likely one"
    )
    seed: int = Field(1, ge=0, le=2**63 - 1, description="random seed of that token")
