"""What the descriptions of all networks share: settings, a name, the inputs they can take.

Nothing here imports torch before a network is built, so that listing models and reading their
settings stay quick.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from unalike.errors import ConfigError
from unalike.settings import Settings

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, ...]


class Model(Settings, ABC):
    """A network that is described by settings and built for the data at hand.

    ``takes`` says in words which inputs it can take, ``axes`` how many axes they have, if fixed.
    ``task`` names the task it is made for; where it is empty, the data's labels decide.
    """

    name: ClassVar[str]
    takes: ClassVar[str]
    axes: ClassVar[int | None] = None
    task: ClassVar[str] = ""

    init: Literal["glorot", "torch"] = Field(
        default="glorot",
        description="how weights are drawn from the seed: Glorot-normal with zero biases, or as "
        "PyTorch initialises linear and convolutional layers: uniform within "
        "1/sqrt(inputs), including biases",
    )

    def options(self) -> dict[str, Any]:
        """What its task must be told beside the network."""
        return {}

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        """The network for inputs of one shape, with ``head`` naming the prefixes of its head.

        Args:
            shape: of one example, without the batch axis: (channels, height, width) for images,
                (channels, samples) for audio, (length,) for symbols, (features,) for tables.
            classes: number of outputs; 1 for a binary task.
        """
        if classes < 1:
            raise ConfigError(
                f"{self.name} was asked for {classes} outputs: it needs one per class, "
                "or 1 for a binary task."
            )
        if not shape or min(shape) < 1 or self.axes not in (None, len(shape)):
            raise self.refusal(shape, self.takes)
        return self.network(shape, classes)

    @abstractmethod
    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """The network itself; ``build`` has checked the number of axes."""

    def refusal(self, shape: Shape, needs: str) -> ConfigError:
        """The error for inputs that this network cannot take."""
        return ConfigError(
            f"{self.name} cannot take inputs of shape {tuple(shape)}: it needs {needs}."
        )


class Convolutional(Model):
    """A body of convolutions, flattened, and a head of linear layers."""

    takes: ClassVar[str] = "images (channels, height, width)"
    axes: ClassVar[int | None] = 3

    @abstractmethod
    def body(self, channels: int) -> list["nn.Module"]:
        """The layers up to the flattening."""

    @abstractmethod
    def head(self, width: int, classes: int) -> list["nn.Module"]:
        """The layers after it, for ``width`` flattened features."""

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """Body and head, joined at whatever width the body gives for this shape."""
        from torch import nn

        from unalike.models.classifier import Classifier, output_width, smallest_size

        features = nn.Sequential(*self.body(shape[0]), nn.Flatten())
        width = output_width(features, shape)
        if not width:
            size = "x".join([str(smallest_size(features, shape))] * (len(shape) - 1))
            raise self.refusal(shape, f"{self.takes} of at least {size}")
        return Classifier(features, nn.Sequential(*self.head(width, classes)))
