"""Ctrl-C and SIGTERM as a request: the first lets the round end, a second stops at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts(heard: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Yields the question whether somebody asked to stop.

    Args:
        heard: Called within the signal handler when the first request comes.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        heard()

    try:
        before = [signal.signal(n, ask) for n in SIGNALS]
    except ValueError:  # not the main thread: others handle signals
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
