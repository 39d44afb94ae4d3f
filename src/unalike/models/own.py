"""The user's own network, named by its Python file."""

from inspect import iscoroutine
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike import own_code
from unalike.errors import ConfigError
from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn


class OwnModel(Model):
    """Your own nn.Module: a function or class (shape, classes) in a Python file."""

    name: ClassVar[str] = "module"
    takes: ClassVar[str] = "any input that it was written for"

    file: str = Field(description="path of the Python file")
    attribute: str = Field(
        default="Model", description="its function or class: (shape, classes) -> nn.Module"
    )

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """Run the file and call what it defines."""
        from torch import nn

        make = own_code.load(own_code.table("model"), self.file, self.attribute)
        path = Path(self.file)
        try:
            made = make(shape, classes)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # raised inside it: the call itself was right
            raise ConfigError(
                f"'{self.attribute}' of '{path}' must accept (shape, classes), for example "
                f"{shape} and {classes}: {error}."
            ) from error
        if not isinstance(made, nn.Module):
            if iscoroutine(made):
                made.close()  # or Python complains later that nobody waited for it
            raise ConfigError(
                f"'{self.attribute}' of '{path}' must return an nn.Module, "
                f"got {type(made).__name__}."
            )
        return made
