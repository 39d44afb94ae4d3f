"""What methods that compress messages share: which way, and what stands against it."""

from abc import abstractmethod
from dataclasses import replace
from typing import Literal

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method
from unalike.parts.compression.codec import Compression
from unalike.settings import setting
from unalike.traits import Trait

REMEMBERED = "what is left out is remembered and sent later (error feedback)"


class Compressing(Method):
    """A method that changes how updates travel, models on their way down, or both."""

    refuses = {
        Trait.SENDS_NO_MODEL: "there is no update of a model to compress",
        Trait.NO_SERVER: "clients send models to their neighbours there, and it compresses "
        "updates for a server",
    }

    direction: Literal["up", "down", "both"] = setting(
        "up",
        "what is compressed: updates on their way up, models on their way down, or both",
        source="our choice: downloads are not compressed, so that clients get exactly the model "
        "that is tested",
    )

    def change(self, draft: Draft) -> Draft:
        """Put this method's part into the compression of either direction."""
        if self.direction != "down":
            draft = replace(draft, compression=self.part(draft.compression))
        if self.direction != "up":
            draft = replace(draft, download=self.part(draft.download))
        return draft

    @abstractmethod
    def part(self, compression: Compression) -> Compression:
        """The compression with this method in it."""
