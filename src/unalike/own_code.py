"""Code of the user's own, named by its Python file."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from typing import Any

from unalike.errors import ConfigError

_NOT_OWN = (  # folders in which no code of the user's lies
    str(Path(__file__).parent),
    *map(get_path, ("stdlib", "purelib", "platlib")),
)


def load(key: str, file: str, attribute: str) -> Any:
    """Run the file and take what it defines; ``key`` is the table that names both."""
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"{key}.file names '{path}', which does not exist in '{Path.cwd()}'.")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{key}.file '{path}' is not a Python file (.py).")
    code = module_from_spec(spec)
    try:
        spec.loader.exec_module(code)
    except Exception as error:
        raise ConfigError(f"{key}.file '{path}' fails when it is run: {reason(error)}.") from error
    if not callable(found := getattr(code, attribute, None)):
        raise ConfigError(
            f"'{path}' has no function or class '{attribute}'; name it by {key}.attribute."
        )
    return found


def reason(error: BaseException) -> str:
    """An error in a few words, with the last line of the user's own code on the way to it."""
    text = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {text[0].rstrip('.')}" if text else type(error).__name__
    own = [frame for frame in extract_tb(error.__traceback__) if _is_own(Path(frame.filename))]
    if not own:
        return said
    file = Path(own[-1].filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{said} (line {own[-1].lineno} of '{shown}')"


def _is_own(file: Path) -> bool:
    return file.is_file() and not any(map(file.is_relative_to, _NOT_OWN))
