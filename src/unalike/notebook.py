"""A bar in a notebook while something trains; everywhere else nothing is shown."""

import sys
import time
from html import escape
from typing import Any

EVERY = 0.2  # seconds between two updates: a browser should not be kept busy


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class Bar:
    """So many steps of a thing done, and a few words beside them."""

    def __init__(self, total: int, shown: bool = True) -> None:
        """With ``shown`` in a notebook only."""
        self.total, self.told = total, 0.0
        self._handle: Any = _Page() if shown and in_notebook() else None

    def update(self, done: float, said: str = "") -> None:
        """Redraw, unless that was done a moment ago and more is to come."""
        now = time.monotonic()
        if self._handle is None or (done < self.total and now - self.told < EVERY):
            return
        self.told = now
        self._handle.show(
            f'<progress value="{done:g}" max="{self.total}" style="width: 20em"></progress> '
            f"{escape(said)}"
        )


class _Page:
    """The place in a notebook's output that is written over."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))
