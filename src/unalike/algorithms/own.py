"""A method of the user's own, named by its Python file."""

from typing import Any, ClassVar

from pydantic import Field

from unalike import own_code
from unalike.algorithms.method import Method
from unalike.errors import ConfigError


class OwnMethod(Method):
    """Your own method: a class in a Python file."""

    name: ClassVar[str] = "own"

    file: str = Field(description="path of the Python file")
    attribute: str = Field(description="its class, a Method")
    settings: dict[str, Any] = Field(default={}, description="the settings of that class")

    def load(self) -> type[Method]:
        """Run the file and take the class."""
        found = own_code.load("method", self.file, self.attribute)
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise ConfigError(
                f"'{self.attribute}' of '{self.file}' must be a class made from "
                "unalike.extend.Method."
            )
        return found
