"""Which leaves of a model never leave the client."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Private:
    """The leaves whose name starts with one of ``prefixes``, or with ``others`` all the rest.

    >>> head = Private(("classifier.",))
    >>> head("classifier.0.weight"), head("features.0.weight")
    (True, False)
    """

    prefixes: tuple[str, ...] = ()
    others: bool = False
    names: frozenset[str] = frozenset()  # kept private as well, whatever their prefix

    def __call__(self, name: str) -> bool:
        """Whether the leaf stays on the client."""
        return name in self.names or name.startswith(self.prefixes) != self.others


SHARED = Private()
EVERYTHING = Private(others=True)
