"""Running statistics that stay on the client (``run.buffers = "local"``)."""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import WHOLE_ONES, Method


class LocalBuffers(Method):
    """BatchNorm's statistics are kept by the client, whatever else travels."""

    refuses = WHOLE_ONES
    called: ClassVar[str] = "run.buffers = 'local'"

    def change(self, draft: Draft) -> Draft:
        """Make the statistics private."""
        names = draft.private.names | frozenset(draft.task.network.buffers)
        return replace(draft, private=replace(draft.private, names=names))
