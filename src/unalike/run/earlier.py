"""Models of earlier runs, by their file or folder."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from unalike.errors import ConfigError
from unalike.tree import Params


def read_model(path: str) -> Params:
    """The weights in a safetensors file or in a run folder that ended."""
    place = Path(path)
    file = place / "model.safetensors" if place.is_dir() else place
    try:
        model: Params = load_file(file)
    except FileNotFoundError:
        raise ConfigError(
            f"'{path}' is named as a trained model, but there is none; give a safetensors file, or "
            "the folder of a run that has ended."
        ) from None
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"'{file}' is not a safetensors file ({error}).") from None
    return model
