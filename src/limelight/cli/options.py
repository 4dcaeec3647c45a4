"""Types of options that several commands have."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Device = Annotated[
    str, Parameter(help="Device: auto, cpu, cuda or mps. auto selects the fastest one that is available.")
]
Engine = Annotated[
    str,
    Parameter(
        help="What computes the answers: torch, or an export of the run to onnx or ctranslate2. auto selects "
        "the fastest one that is exported. See `limelight export`."
    ),
]
Settings = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        negative="",
        show_default=False,
        help="Change a setting, such as model.heads=2. Can be repeated. `limelight settings` lists all.",
    ),
]
Log = Annotated[
    tuple[str, ...],
    Parameter(
        negative="",
        show_default=False,
        help="Also write metrics, settings and figures for another program: tensorboard or mlflow. Can be "
        "repeated. With --resume, give it again.",
    ),
]
Data = Annotated[Path | None, Parameter(help="Your own file or folder, for recipes that read data.")]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
JsonLines = Annotated[bool, Parameter(name="--jsonl", negative="")]
RunFolder = Annotated[Path, Parameter(help="Run folder of `limelight train`, for example runs/reverse.")]
