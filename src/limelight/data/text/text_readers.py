"""All vocabularies of running text."""

from typing import Annotated

from pydantic import Field

from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.text_vocabulary import TextBytes, TextCharacters, TextSubwords, TextWords

TextReader = Annotated[
    TextBytes | TextCharacters | TextSubwords | TextWords | PretrainedTokenizer, Field(discriminator="kind")
]
