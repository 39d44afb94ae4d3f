"""Questions to sites and their answers, whatever carries them."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from unalike.deploy.wire.messages import Message

AGAIN = "it joined again before it answered"


class Exchange(Protocol):
    """The coordinator's end."""

    limit: int  # bytes of the longest answer

    def ask(
        self, questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        """Answers as they come in, by site; a sentence for each site that gave none in time.

        A site that joins again in the meantime has forgotten what it was asked: ``AGAIN``.
        """
        ...

    def session(self, site: str) -> int:
        """How often the site has joined; 0: not yet. A site that joins again has forgotten."""
        ...

    def close(self) -> None:
        """No more questions."""
        ...
