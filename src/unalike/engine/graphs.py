"""Local steps on a GPU without Python between them: one is recorded as a CUDA graph and replayed.

A vmapped step launches hundreds of small kernels, and launching takes far longer than computing.
"""

import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress

import torch

WORTH = 6  # recording costs about as much as three steps


class Graphs:
    """Repeats something that works in place on fixed tensors; the results are those of a loop."""

    def __init__(self, device: torch.device) -> None:
        """Recordings on one device share one pool of memory."""
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        # A pool lives as long as a graph uses it, so the last one is kept until the next is made.
        self.last: torch.cuda.CUDAGraph | None = None
        self.refused = False

    def __call__(self, body: Callable[[], None], times: int, kind: Hashable) -> None:
        """Run ``body`` that many times, in order."""
        if times >= WORTH and not self.refused:
            body()  # loads every kernel: that cannot be done while recording
            times -= 1
            graph = self._recorded(body)
            if graph is not None:
                for _ in range(times):
                    graph.replay()
                torch.cuda.current_stream(self.device).synchronize()  # the last one is in use yet
                self.last = graph
                return
        for _ in range(times):
            body()

    def _recorded(self, body: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """What ``body`` would launch, none of it done yet; None if it needs the host in between."""
        graph = torch.cuda.CUDAGraph()
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            graph.capture_begin(self.pool, capture_error_mode="thread_local")
            try:
                body()
            except RuntimeError as error:
                self._refuse(graph, error)
                return None
            graph.capture_end()
        here.wait_stream(self.stream)
        return graph

    def _refuse(self, graph: torch.cuda.CUDAGraph, error: RuntimeError) -> None:
        """Give the recording up, and say so once."""
        with suppress(RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the graph is empty
            graph.capture_end()
        self.refused, self.last, self.pool = True, None, torch.cuda.graph_pool_handle()
        warnings.warn(
            "a local step of this model or method cannot be recorded as a CUDA graph, so steps run "
            "one by one, which is slower; engine.graphs = false hides this "
            f"({str(error).splitlines()[0]})",
            stacklevel=2,
        )
