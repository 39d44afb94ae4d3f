"""What Python would launch on a GPU, recorded as a CUDA graph."""

import warnings
from collections.abc import Callable
from contextlib import suppress

import torch

from unalike.errors import RunWarning


class Capture:
    """Recordings on one device, which share one pool of memory: one is replayed after another."""

    def __init__(self, device: torch.device, *, quiet: bool = False) -> None:
        """``quiet`` where it does not matter much that something cannot be recorded."""
        self.device, self.quiet = device, quiet
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, body: Callable[[], None]) -> Callable[[], None] | None:
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
        return graph.replay

    def _refuse(self, graph: torch.cuda.CUDAGraph, error: RuntimeError) -> None:
        """Give the recording up, and say so."""
        with suppress(RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the graph is empty
            graph.capture_end()
        self.pool = torch.cuda.graph_pool_handle()
        if self.quiet:
            return
        warnings.warn(
            "a local step of this model or method cannot be recorded as a CUDA graph, so steps run "
            "one by one, which is slower; engine.graphs = false hides this "
            f"({str(error).splitlines()[0]})",
            RunWarning,
            stacklevel=2,
        )
