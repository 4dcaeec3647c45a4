"""A folder of Hugging Face as a model of ours: by the family that its config names."""

from collections.abc import Callable
from pathlib import Path

from limelight.bridge.huggingface import bert, decoders, marian, vision
from limelight.bridge.huggingface.folder import ModelFolder, find_folder
from limelight.bridge.huggingface.imported import Imported, Plan, carry_out
from limelight.errors import unknown

FAMILIES: dict[str, Callable[[ModelFolder, str], Plan]] = {
    "bert": bert.plan,
    "roberta": bert.plan,
    "distilbert": bert.plan,
    "gpt2": decoders.plan_gpt2,
    "llama": decoders.plan_llama,
    "mistral": decoders.plan_llama,
    "qwen2": decoders.plan_llama,
    "marian": marian.plan,
    "vit": vision.plan,
    "deit": vision.plan,
}


def read_model(source: str | Path, task: str = "") -> Imported:
    """The model in a folder, or in a package that is installed, such as "minilm".

    What its config asks for and limelight does not have is refused. Nothing in the folder is executed.
    """
    folder = ModelFolder(find_folder(source))
    family = folder.config.get("model_type")
    if family not in FAMILIES:
        raise unknown("model_type", str(family)[:60], FAMILIES)
    plan = FAMILIES[family](folder, task)
    return carry_out(plan, folder.tensors(), folder.path)
