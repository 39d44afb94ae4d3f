"""A package that is also a function: ``unalike.compare(...)`` beside ``unalike.compare.labels``.

Importing a package puts it in its parent's namespace under its own name, over any function of that
name; so the package itself is what can be called.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """Called, it does what a function in another module does."""

    _called: str  # module:function

    @property
    def __wrapped__(self) -> Any:
        """The function, whose signature and docstring are shown for the package's."""
        home, _, name = self._called.partition(":")
        return getattr(import_module(home), name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What the function does."""
        return self.__wrapped__(*args, **options)


def make_callable(package: str, function: str) -> None:
    """Let the package be called; ``function`` is imported when that happens first."""
    module = sys.modules[package]
    module.__class__ = CallablePackage
    vars(module)["_called"] = function
