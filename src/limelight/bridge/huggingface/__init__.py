"""Models of Hugging Face: folders with `config.json` and `model.safetensors`."""

from limelight.bridge.huggingface.imported import Imported
from limelight.bridge.huggingface.importing import read_model

__all__ = ["Imported", "read_model"]
