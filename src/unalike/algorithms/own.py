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
        found = own_code.load(own_code.table("method"), self.file, self.attribute)
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise ConfigError(
                f"'{self.attribute}' of '{self.file}' must be a class made from "
                "unalike.extend.Method."
            )
        return acting(found)


def acting(found: type[Method]) -> type[Method]:
    """The class, if it is finished: it defines what is abstract, and changes something."""
    if lacking := sorted(getattr(found, "__abstractmethods__", ())):
        raise ConfigError(
            f"class '{found.__name__}' cannot be used as a method yet: it has no '{lacking[0]}'."
        )
    if found is Method or (found.change is Method.change and not _known(found)):
        raise ConfigError(
            f"class '{found.__name__}' changes nothing: define 'change(self, draft)', which "
            "returns the changed draft, or use 'fedavg'."
        )
    return found


def _known(found: type[Method]) -> bool:
    """Whether it is one of the package: FedAvg changes nothing, and is meant to."""
    return found.__module__.partition(".")[0] == "unalike"
