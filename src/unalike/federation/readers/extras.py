"""Packages that only some readers need."""

from importlib import import_module
from types import ModuleType

from unalike.errors import DataError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """The imported module, or the command that installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise DataError(
            f"{purpose} needs the package '{module.partition('.')[0]}'; "
            f"install it with pip install 'unalike[{extra}]'."
        ) from None
