"""Where features of examples come from: a function of the user's own, or Inception.

FILE.py:FUNCTION names a function; inception:WEIGHTS the network whose features published FIDs use
(Szegedy et al. 2016), with timm's or torchvision's weights from disk as safetensors: PyTorch's own
format is a pickle, and nothing that comes from outside is unpickled.
"""

from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

from unalike import own_code
from unalike.errors import ConfigError
from unalike.models.pretrained import library

Extractor = Callable[[Tensor], Tensor]
INCEPTION = "inception"
SIDE = 299  # pixels of its images


def extractor(named: str) -> Extractor:
    """From examples [n, ...] to features [n, d]."""
    file, attribute = apart(named)
    if file == INCEPTION:
        return Inception(Path(attribute).expanduser())
    keys = own_code.Named("evaluation.extractor", "evaluation.extractor")
    found: Extractor = own_code.load(keys, file, attribute)
    return found


def apart(named: str) -> tuple[str, str]:
    """The file and the function; or 'inception' and its weights.

    >>> apart("features.py:extract")
    ('features.py', 'extract')
    """
    file, _, attribute = named.partition(":")
    if file != INCEPTION:
        file, _, attribute = named.rpartition(":")
    if not file or not attribute:
        raise ConfigError(
            f"evaluation.extractor is '{named}', which must be a Python file and a function in it, "
            "such as 'features.py:extract', or 'inception:' and a file of its weights."
        )
    return file, attribute


def source(named: str) -> str:
    """The file that decides what the features are.

    >>> source("features.py:extract"), source("inception:v3.safetensors")
    ('features.py', 'v3.safetensors')
    """
    file, attribute = apart(named)
    return attribute if file == INCEPTION else file


class Inception:
    """The 2,048 features that Inception-v3 pools, of images with values from 0 to 1."""

    def __init__(self, path: Path) -> None:
        """Its weights are those of timm's ``inception_v3`` or of torchvision's, with a head or not.

        Both are trained on images from -1 to 1.
        """
        if not path.is_file():
            raise ConfigError(
                f"there are no weights of Inception at '{path}'; fetch timm's or torchvision's "
                "inception_v3 and name the file in evaluation.extractor, as 'inception:FILE'."
            )
        if path.suffix != ".safetensors":
            raise ConfigError(
                f"'{path}' is not a .safetensors file; timm publishes inception_v3 as one, and "
                "safetensors.torch.save_file writes one from other weights."
            )
        timm = library("timm", "evaluation.extractor = 'inception:...'")
        self.network: nn.Module = timm.create_model("inception_v3", pretrained=False, num_classes=0)
        needed = self.network.state_dict().keys()
        try:
            self.network.load_state_dict({k: v for k, v in load_file(path).items() if k in needed})
        except Exception as error:  # of another network, or no weights at all
            first = (str(error).splitlines() or [""])[0].rstrip(".:")
            raise ConfigError(f"'{path}' are not the weights of inception_v3: {first}.") from None
        self.network.eval()

    def __call__(self, x: Tensor) -> Tensor:
        """Grey images in three equal channels, all as large as the network wants them."""
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            raise ConfigError(
                "evaluation.extractor = 'inception:...' needs images of one or three channels, got "
                f"examples of shape {tuple(x.shape[1:])}."
            )
        x = nn.functional.interpolate(x.float(), (SIDE, SIDE), mode="bilinear", antialias=True)
        found: Tensor = self.network(2 * x.expand(-1, 3, -1, -1) - 1)
        return found
