"""Convolutions of many clients on one GPU: these kernels beside PyTorch's grouped convolution.

    python benchmarks/gpu_conv.py [--rounds 5] [--profile]

First single layers: milliseconds of forward pass, input gradient and weight gradient, and how far
the forward pass is from double precision. Then one round of FedAvg's CNN, 100 clients x 12 steps x
50 images: ``vmap(grad(loss))`` of the unchanged network, recorded as a CUDA graph, with the update
of the weights. Random data: speed does not depend on the pixels.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from unalike.kernels import launch, reference
from unalike.kernels.geometry import Geometry
from unalike.kernels.layers import accelerated
from unalike.models import MODELS

PRECISIONS = ("bf16", "tf32", "ieee")


class Layer(NamedTuple):
    """A convolution; images are square."""

    clients: int
    images: int
    channels: int
    pixels: int
    outputs: int
    taps: int
    geometry: Geometry


LAYERS = {
    "5x5 1-32, 28 pixels": Layer(100, 50, 1, 28, 32, 5, Geometry(padding=(1, 1))),
    "5x5 32-64, 14 pixels": Layer(100, 50, 32, 14, 64, 5, Geometry(padding=(1, 1))),
    "3x3 3-32, 32 pixels": Layer(50, 10, 3, 32, 32, 3, Geometry()),
    "3x3 32-64, 30 pixels": Layer(50, 10, 32, 30, 64, 3, Geometry()),
    "3x3 64-64, 8 pixels": Layer(100, 20, 64, 8, 64, 3, Geometry(padding=(1, 1))),
    "3x3 128-256 stride 2, 8 pixels": Layer(100, 20, 128, 8, 256, 3, Geometry((2, 2), (1, 1))),
    "1x1 64-128, 16 pixels": Layer(100, 20, 64, 16, 128, 1, Geometry()),
    "3x3 depthwise 128, 16 pixels": Layer(
        100, 20, 128, 16, 128, 3, Geometry(padding=(1, 1), groups=128)
    ),
}


def told(precision: str) -> None:
    """Tell PyTorch how to multiply in single precision."""
    name = "ieee" if precision == "ieee" else "tf32"
    torch.backends.cudnn.conv.fp32_precision = name
    torch.backends.cuda.matmul.fp32_precision = name


def milliseconds(f: Callable[[], object], repeats: int = 5) -> float:
    """Per call, without the time that Python takes."""
    f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            f()
    graph.replay()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 3)
    return statistics.median(times)


def layer_line(name: str, precision: str) -> dict[str, object]:
    n, images, channels, pixels, outputs, taps, geometry = LAYERS[name]
    told(precision)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    image, kernel = (pixels, pixels), (taps, taps)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, device="cuda").to(dtype)

    size = geometry.size(image, kernel)
    x = drawn(n, images, *image, channels).permute(0, 1, 4, 2, 3)
    g = drawn(n, images, *size, outputs).permute(0, 1, 4, 2, 3)
    w, b = drawn(n, outputs, channels // geometry.groups, *kernel), drawn(n, outputs)
    true = reference.convolution(x[:2].double(), w[:2].double(), b[:2].double(), geometry)
    line: dict[str, object] = {"layer": name, "precision": precision}
    for title, by in (("kernels", launch), ("pytorch", reference)):
        wide, deep = (x, g) if by is launch else (x.contiguous(), g.contiguous())
        parts = (
            lambda by=by, x=wide: by.convolution(x, w, b, geometry),
            lambda by=by, g=deep: by.input_gradient(g, w, image, geometry),
            lambda by=by, x=wide, g=deep: by.weight_gradient(x, g, kernel, True, geometry),
        )
        line[f"{title}_ms"] = [round(milliseconds(part), 3) for part in parts]
        error = torch.linalg.norm(parts[0]()[:2].double() - true) / torch.linalg.norm(true)
        line[f"{title}_error"] = float(f"{float(error):.1e}")
    return line


def round_line(
    precision: str, ours: bool, rounds: int, profile: bool, clients: int = 100, steps: int = 12
) -> dict[str, object]:
    told(precision)
    torch.manual_seed(0)
    batch, lr = 50, 0.05
    net = MODELS["mcmahan_cnn"]().build((1, 28, 28), 10).cuda()
    if ours:
        net = accelerated(net)
    w = {n: p.detach().expand(clients, *p.shape).clone() for n, p in net.named_parameters()}
    x = torch.rand(clients, steps * batch, 1, 28, 28, device="cuda")
    y = torch.randint(0, 10, (clients, steps * batch), device="cuda")
    order = torch.rand(clients, steps * batch, device="cuda").argsort(1)
    rows = order.reshape(clients, steps, batch)
    who = torch.arange(clients, device="cuda")[:, None]
    t = torch.zeros((), dtype=torch.long, device="cuda")

    def loss(w: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, precision == "bf16", cache_enabled=False):
            out = functional_call(net, w, (x,))
        return F.cross_entropy(out.float(), y)

    def step() -> None:
        row = rows.index_select(1, t[None])[:, 0]
        slopes = vmap(grad(loss))(w, x[who, row], y[who, row])
        torch._foreach_add_(list(w.values()), [slopes[n] for n in w], alpha=-lr)
        t.add_(1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
        t.zero_()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def one_round() -> None:
        t.zero_()
        for _ in range(steps):
            graph.replay()
        torch.cuda.synchronize()

    one_round()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        one_round()
        times.append(time.perf_counter() - begun)
    if profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            one_round()
        for e in sorted(seen.key_averages(), key=lambda e: -e.self_device_time_total)[:20]:
            each, calls = e.self_device_time_total / steps / 1e3, e.count // steps
            print(f"  {each:7.3f} ms a step, {calls:2d} calls  {e.key[:100]}", flush=True)
    return {
        "round": "mcmahan_cnn, 100 clients x 12 steps x 50",
        "precision": precision,
        "convolutions": "kernels" if ours else "pytorch",
        "ms": round(statistics.median(times) * 1e3, 2),
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--profile", action="store_true", help="list the kernels of a round")
    chosen = options.parse_args()
    for precision in PRECISIONS:
        for ours in (True, False):
            line = round_line(precision, ours, chosen.rounds, chosen.profile and ours)
            print(json.dumps(line), flush=True)
            torch.cuda.empty_cache()
    for name in LAYERS:
        for precision in PRECISIONS:
            print(json.dumps(layer_line(name, precision)), flush=True)


if __name__ == "__main__":
    main()
