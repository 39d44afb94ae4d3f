"""Code of the user's own, named by its Python file."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from unalike.errors import ConfigError


def load(key: str, file: str, attribute: str) -> Any:
    """Run the file and take what it defines; ``key`` is the table that names both."""
    path = Path(file)
    if not path.is_file():
        raise ConfigError(
            f"{key}.file names '{path}', which does not exist; it is looked up from the folder in "
            "which unalike is started."
        )
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{key}.file '{path}' is not a Python file (.py).")
    code = module_from_spec(spec)
    try:
        spec.loader.exec_module(code)
    except Exception as error:
        raise ConfigError(
            f"{key}.file '{path}' fails when it is run: {type(error).__name__}: {error}."
        ) from error
    if not callable(found := getattr(code, attribute, None)):
        raise ConfigError(
            f"'{path}' has no function or class '{attribute}'; name it by {key}.attribute."
        )
    return found
