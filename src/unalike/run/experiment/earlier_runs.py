"""Models of earlier runs, by their file or folder."""

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from unalike.errors import ConfigError
from unalike.packed import owned
from unalike.run.folder.records import read_json
from unalike.tree import Params

COUNTED = ("bytes_down", "bytes_up", "bytes_across", "messages", "samples", "gradients", "looked")


def read_model(path: str) -> Params:
    """The weights in a safetensors file or in a run folder that ended."""
    place = Path(path)
    file = place / "model.safetensors" if place.is_dir() else place
    try:
        return owned(load_file(file))
    except FileNotFoundError:
        raise ConfigError(
            f"'{path}' should be a trained model but contains none; give a safetensors file, or "
            "the folder of a finished run."
        ) from None
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"'{file}' is not a safetensors file ({error}).") from None


def used(paths: Sequence[str]) -> dict[str, float]:
    """What the runs in these folders have sent and computed, which counts as this run's, too."""
    total: dict[str, float] = {}
    for path in paths:
        file = Path(path) / "summary.json"
        summary = read_json(file) if file.is_file() else {}
        for name in COUNTED:
            total[name] = total.get(name, 0) + summary.get(name, 0)
    return total
