"""What methods that compress messages share: direction, consensus step, and reasons to refuse.

With a server, updates are compressed, models on their way down, or both. Without one, nodes send
their neighbours the compressed difference between their model and what the neighbours know of it,
and step towards what they know of their neighbours (CHOCO-SGD, Koloskova et al. 2019;
``compression/copies.py``).
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method
from unalike.parts.compression.codec import Compression
from unalike.parts.topology import Decentralized
from unalike.settings import setting
from unalike.traits import Trait

REMEMBERED = (
    "what is left out is remembered and sent later (error feedback); always so without a server"
)


def consensus_step(default: float, source: str) -> Any:
    """The setting, whose default depends on how much is left out."""
    return setting(
        default,
        "without a server: how far a node moves towards what it knows of its neighbours (gamma)",
        gt=0,
        le=1,
        source=source,
    )


class Compressing(Method):
    """A method that changes how updates travel, models on their way down, or both."""

    refuses = {Trait.SENDS_NO_MODEL: "there is no update of a model to compress"}

    direction: Literal["up", "down", "both"] = setting(
        "up",
        "what is compressed: updates on their way up, models on their way down, or both",
        source="our choice: downloads are not compressed, so that clients get exactly the model "
        "that is tested",
    )
    consensus_step: float = consensus_step(1.0, "our choice: all the way")

    def change(self, draft: Draft) -> Draft:
        """Put this method's part into the compression of either direction."""
        step = min(self.consensus_step, draft.consensus_step or 1.0)  # of the strongest of several
        if draft.topology.local:
            draft = replace(draft, consensus_step=step)
        if self.direction != "down":
            draft = replace(draft, compression=self.part(draft.compression))
        if self.direction != "up":
            draft = replace(draft, download=self.part(draft.download))
        return draft

    def objection(self, draft: Draft) -> str:
        """Settings that only make sense with a server, or only without one."""
        graph = draft.topology
        if not isinstance(graph, Decentralized):
            usual = type(self).model_fields["consensus_step"].default
            return (
                "consensus_step is for topologies without a server; leave it out."
                if self.consensus_step != usual
                else ""
            )
        if self.direction != "up":
            return (
                f'direction = "{self.direction}" needs a server: neighbours have one kind of '
                "message; leave it out."
            )
        late = draft.clock is not None and draft.clock.deadline is not None
        for wrong, why in (
            (not graph.stays, "use a graph that does not change, such as topology.name = 'ring'"),
            (graph.link_loss > 0, "set topology.link_loss = 0"),
            (late, "leave clock.deadline out"),
            (draft.late is not None, "set participation.late = 0"),
        ):
            if wrong:
                return (
                    "without a server, neighbours add up a node's compressed messages, so none may "
                    f"be missed; {why}."
                )
        return ""

    @abstractmethod
    def part(self, compression: Compression) -> Compression:
        """The compression with this method in it."""
