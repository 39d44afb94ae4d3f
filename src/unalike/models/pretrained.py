"""Pre-trained networks from other libraries, with weights from disk.

EfficientNet-B0 (Tan and Le 2019) from timm, DistilBERT (Sanh et al. 2019) from transformers, each
with AAggFF's head (Hahn et al. 2024). Nothing is downloaded: ``weights`` names files on disk.
``run.init = "given"`` starts from them; without it they would be drawn at random, which is refused.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from unalike.errors import ConfigError
from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn


class EfficientNet(Model):
    """EfficientNet-B0 of timm, its pooled 7 x 7 features | one layer."""

    name: ClassVar[str] = "efficientnet"
    takes: ClassVar[str] = "images (channels, height, width)"
    axes: ClassVar[int | None] = 3

    weights: str = Field(
        default="",
        description="timm's model.safetensors of efficientnet_b0, for run.init = 'given'; if "
        "empty, weights are drawn",
    )

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """Features, average-pooled to 7 x 7, dropout and one layer."""
        from torch import nn

        from unalike.models.classifier import Classifier

        timm = library("timm", f"model '{self.name}'")
        parts = {"num_classes": 0, "global_pool": "", "in_chans": shape[0]}
        body = timm.create_model("efficientnet_b0", pretrained=False, **parts)
        if self.weights:
            _load(body, Path(self.weights).expanduser())
        features = nn.Sequential(body, nn.AdaptiveAvgPool2d(7), nn.Flatten())
        head = nn.Sequential(nn.Dropout(0.1), nn.Linear(49 * body.num_features, classes))
        return Classifier(features, head)


class DistilBert(Model):
    """DistilBERT of transformers, its first token | two layers."""

    name: ClassVar[str] = "distilbert"
    takes: ClassVar[str] = "sequences of tokens (length,)"
    axes: ClassVar[int | None] = 1

    weights: str = Field(
        min_length=1,
        description="folder of distilbert-base-uncased (config.json, model.safetensors), for "
        "run.init = 'given'",
    )

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """The encoder, a hidden layer, dropout and one layer."""
        from torch import nn

        from unalike.models.classifier import Classifier, FirstToken

        made = library("transformers", f"model '{self.name}'")
        folder = Path(self.weights).expanduser()
        if not (folder / "config.json").is_file():
            raise _missing(self.name, folder / "config.json")
        # Attention that is written out can be computed for many clients at once.
        options = {"attn_implementation": "eager", "local_files_only": True}
        encoder = made.AutoModel.from_pretrained(str(folder), use_safetensors=True, **options)
        width = encoder.config.dim
        hidden = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1))
        return Classifier(FirstToken(encoder), hidden.append(nn.Linear(width, classes)))


PRETRAINED: dict[str, type[Model]] = {m.name: m for m in (EfficientNet, DistilBert)}


def library(module: str, what: str) -> Any:
    """A package that only some need; ``what`` needs it, in words."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"{what} needs the package '{module}'; install it with "
            "pip install 'unalike[pretrained]'."
        ) from None


def _missing(model: str, path: Path) -> ConfigError:
    return ConfigError(
        f"model '{model}' has no weights at '{path}'; fetch them on a machine with a network and "
        "give their path as model.weights."
    )


def _load(body: "nn.Module", path: Path) -> None:
    """Fill a body from a file; that of a whole classifier may have a head more."""
    from safetensors.torch import load_file

    if not path.is_file():
        raise _missing(EfficientNet.name, path)
    try:
        needed = body.state_dict().keys()
        body.load_state_dict({k: v for k, v in load_file(path).items() if k in needed})
    except Exception as error:  # of another network, or no weights at all
        first = (str(error).splitlines() or [""])[0].rstrip(".:")
        raise ConfigError(f"'{path}' are not the weights of efficientnet_b0: {first}.") from None
