"""A network of the user's own, named by its Python file."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.errors import ConfigError
from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn

_NOT_OWN = (  # folders in which no code of the user's lies
    str(Path(__file__).parent.parent),
    *map(get_path, ("stdlib", "purelib", "platlib")),
)


class OwnModel(Model):
    """Your own nn.Module: a function or class (shape, classes) in a Python file."""

    name: ClassVar[str] = "module"
    takes: ClassVar[str] = "whatever it was written for"

    file: str = Field(description="path of the Python file")
    attribute: str = Field(
        default="Model", description="its function or class: (shape, classes) -> nn.Module"
    )

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """Run the file and call what it defines."""
        from torch import nn

        path = Path(self.file)
        if not path.is_file():
            raise ConfigError(f"model.file names '{path}', which does not exist in '{Path.cwd()}'.")
        spec = spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"model.file '{path}' is not a Python file (.py).")
        code = module_from_spec(spec)
        try:
            spec.loader.exec_module(code)
        except Exception as error:
            raise ConfigError(
                f"model.file '{path}' fails when it is run: {reason(error)}."
            ) from error
        make = getattr(code, self.attribute, None)
        if not callable(make):
            raise ConfigError(
                f"'{path}' has no function or class '{self.attribute}'; name it by model.attribute."
            )
        try:
            made = make(shape, classes)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from within, so it was called rightly
            raise ConfigError(
                f"'{self.attribute}' of '{path}' must accept (shape, classes), for example "
                f"{shape} and {classes}: {error}."
            ) from error
        if not isinstance(made, nn.Module):
            raise ConfigError(
                f"'{self.attribute}' of '{path}' must return an nn.Module, "
                f"got {type(made).__name__}."
            )
        return made


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
