"""A function of the user's own from examples to features, named as FILE.py:FUNCTION."""

from collections.abc import Callable

from torch import Tensor

from unalike import own_code
from unalike.errors import ConfigError

Extractor = Callable[[Tensor], Tensor]


def extractor(named: str) -> Extractor:
    """From examples [n, ...] to features [n, d]."""
    file, attribute = apart(named)
    found: Extractor = own_code.load("evaluation.extractor", file, attribute)
    return found


def apart(named: str) -> tuple[str, str]:
    """The file and the function.

    >>> apart("features.py:extract")
    ('features.py', 'extract')
    """
    file, _, attribute = named.rpartition(":")
    if not file or not attribute:
        raise ConfigError(
            f"evaluation.extractor is '{named}', which must be a Python file and a function in it, "
            "such as 'features.py:extract'."
        )
    return file, attribute
