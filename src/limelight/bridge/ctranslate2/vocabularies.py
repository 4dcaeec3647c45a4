"""The vocabularies of an exported model: one name per token, in the order of the ids."""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from limelight.data.text.text_vocabulary import TextSubwords, TextVocabulary
from limelight.data.text.translation_data import Language
from limelight.data.text.vocabulary import Subwords

BEGIN_NAME, END_NAME = "[begin]", "[end]"


def language_names(language: Language) -> list[str]:
    """The names of all tokens of a language, and of its begin and end marks."""
    marks = {language.begin: BEGIN_NAME, language.end: END_NAME}
    others = [token for token in range(language.size) if token not in marks]
    names = dict(zip(others, _one_to_one([language.name(token) for token in others]), strict=True))
    return [(names | marks)[token] for token in range(language.size)]


def text_names(vocabulary: TextVocabulary) -> list[str]:
    """The names of all tokens of running text, those of sentencepiece if it makes them."""
    if isinstance(vocabulary, TextSubwords):
        pieces = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.file)
        return [pieces.id_to_piece(token) for token in range(vocabulary.size)]
    others = [token for token in range(vocabulary.size) if token != vocabulary.end]
    names = dict(zip(others, _one_to_one([vocabulary.name(token) for token in others]), strict=True))
    return [names.get(token, END_NAME) for token in range(vocabulary.size)]


def _one_to_one(names: Sequence[str]) -> list[str]:
    """The names; numbers instead if two of them are equal: CTranslate2 knows tokens by their names."""
    unique = len({*names, BEGIN_NAME, END_NAME}) == len(names) + 2
    return list(names) if unique else [str(number) for number in range(len(names))]


def write_subwords(vocabulary: object, path: Path) -> None:
    """The file with which sentencepiece splits a text, if the tokens are subwords."""
    if isinstance(vocabulary, Subwords | TextSubwords):
        path.write_bytes(vocabulary.file)
