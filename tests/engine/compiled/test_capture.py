"""Recordings on a GPU that break off; a device that is left recording computes nothing else."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from unalike.engine.compiled.capture import Capture
from unalike.errors import RunWarning


class Graph:
    """Stands in for a recording where there is no GPU."""

    recording = 0

    def capture_begin(self, pool, capture_error_mode):
        Graph.recording += 1

    def capture_end(self):
        Graph.recording -= 1

    def replay(self):
        """Nothing was recorded."""


@pytest.fixture
def capture(monkeypatch):
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    Graph.recording = 0
    return Capture(torch.device("cpu"))


def breaks_off(error):
    def body():
        raise error

    return body


def test_what_needs_the_host_is_not_recorded(capture):
    assert capture(breaks_off(RuntimeError("no memory\nin detail"))) is None
    assert (capture.why, Graph.recording) == ("no memory", 0)
    assert capture(lambda: None) is not None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunWarning("as an error"), MemoryError()])
def test_nothing_is_left_recording(capture, error):
    with pytest.raises(type(error)):
        capture(breaks_off(error))
    assert Graph.recording == 0
    assert capture(lambda: None) is not None
