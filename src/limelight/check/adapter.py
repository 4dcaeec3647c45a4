"""Code to fill in by hand for an object that could not be called."""

import shlex
from pathlib import Path

from limelight.check.isolation.sources import NOTEBOOK
from limelight.check.kinds import Kind

IMPORT = """from {stem} import {name}


"""

FUNCTION = """def adapted({call}):  # {shapes}
    return {name}(...)
"""

CLASS = """class Adapted({name}):
    def __init__(self, {constructor}):
        super().__init__(...)

    def forward(self, {call}):  # {shapes}
        return super().forward(...)
"""

UNKNOWN = Kind("KIND", (), names="")  # for an object of unknown kind: the user replaces the word


def adapter(file: Path, name: str, kind: Kind, *, is_class: bool) -> str:
    """Code that calls the object `name` with the usual arguments of its kind; the dots are to be replaced."""
    is_cell = file.suffix == NOTEBOOK
    template = ("" if is_cell else IMPORT) + (CLASS if is_class else FUNCTION)
    code = template.format(
        stem=file.stem,
        name=name,
        call=kind.adapter_call,
        shapes=kind.adapter_shapes,
        constructor=kind.adapter_constructor,
    )
    target = f"{file.name if is_cell else 'adapted.py'}::{'Adapted' if is_class else 'adapted'}"
    return f"{code}# limelight check {shlex.quote(target)} --as {kind.name}\n"
