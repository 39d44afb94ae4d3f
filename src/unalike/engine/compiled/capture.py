"""Records what Python launches on a GPU as a CUDA graph."""

import warnings
from collections.abc import Callable
from contextlib import suppress

import torch


class Capture:
    """Recordings on one device, which share one pool of memory: one is replayed after another."""

    def __init__(self, device: torch.device) -> None:
        """Nothing is recorded yet."""
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.why = ""  # the last thing could not be recorded
        self._begin()

    def _begin(self) -> None:
        """A pool lives as long as a graph uses it, so one that does next to nothing is kept."""
        self.pool = torch.cuda.graph_pool_handle()
        nothing = torch.zeros((), device=self.device)
        self.keeper, _ = self._recorded(nothing.zero_)

    def __call__(self, body: Callable[[], object]) -> Callable[[], None] | None:
        """What ``body`` would launch, not yet executed; None if it needs the host in between."""
        graph, error = self._recorded(body)
        if error is None:
            return graph.replay
        self._begin()
        if not isinstance(error, RuntimeError):
            raise error
        self.why = str(error).splitlines()[0]
        return None

    def _recorded(
        self, body: Callable[[], object]
    ) -> tuple[torch.cuda.CUDAGraph, BaseException | None]:
        graph, error = torch.cuda.CUDAGraph(), None
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            graph.capture_begin(self.pool, capture_error_mode="thread_local")
            try:
                body()
                graph.capture_end()
            except BaseException as wrong:  # also Ctrl-C: else nothing could be computed any more
                error = wrong
                with suppress(RuntimeError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that the graph is empty
                    graph.capture_end()
        here.wait_stream(self.stream)
        return graph, error
