"""What sites report about a model on their own rows: checked, then put side by side."""

from collections.abc import Mapping

import torch
from torch import Tensor

from unalike.deploy.messages import Message, MessageError, under
from unalike.metrics.calibration import BINS, Reliability, ece, mce, pool
from unalike.metrics.catalogue import METRICS
from unalike.tasks import Judged

SECTIONS = ("train", "validation", "local", "global")
ROWWISE = ("accuracy", "top5", "loss", "mae", "reconstruction", "kl")  # means over rows
COUNTED = torch.zeros(1, dtype=torch.float64)  # the form of a metric


def read(m: Message) -> dict[str, Judged]:
    """A site's results, section by section; MessageError if they are malformed."""
    found, known = dict[str, Judged](), 0
    for section in SECTIONS:
        told = under(m.tensors, section)
        metrics = {k[2:-2]: v for k, v in under(told, "metrics").items()}
        bins = {k[2:-2]: v for k, v in under(told, "bins").items()}
        known += len(metrics) + len(bins)
        if metrics:
            found[section] = Judged(_sound(metrics), _diagram(bins) if bins else None)
    if known != len(m.tensors):
        raise MessageError("a verdict has tensors that are not part of it.")
    return found


def _sound(metrics: dict[str, Tensor]) -> dict[str, Tensor]:
    """One number each, of which some may be undefined; how many rows there are is known."""
    n = metrics.get("n")
    odd = sorted(metrics.keys() - METRICS.keys() - {"n"})
    if n is None or odd:
        said = f"has an unknown {odd[0]!r}" if odd else "lacks its number of rows"
        raise MessageError(f"a verdict {said}.")
    for name, x in metrics.items():
        if x.shape != COUNTED.shape or x.dtype != COUNTED.dtype:
            raise MessageError(f"a verdict gives '{name}', which is not a single number.")
    if not 0 <= float(n) < float("inf"):
        raise MessageError(f"a verdict claims {float(n):g} rows.")
    return metrics


def _diagram(bins: dict[str, Tensor]) -> Reliability:
    """Counts and shares of each bin; empty bins hold no number."""
    if bins.keys() != set(Reliability._fields):
        raise MessageError("the bins of a verdict are not those of a reliability diagram.")
    found = Reliability(**bins)
    fine = found.counts.dtype == torch.int64 and bool((found.counts >= 0).all())
    fine &= all(x.is_floating_point() and not bool(x.isinf().any()) for x in found[1:])
    if not fine or any(x.shape != (1, BINS) for x in found):
        raise MessageError("the bins of a verdict are not those of a reliability diagram.")
    return found


def side_by_side(each: Mapping[int, Judged], clients: int) -> Judged:
    """One value for each site, NaN where one is silent; bins of all rows together."""
    blank, everybody = torch.full_like(COUNTED, torch.nan), range(clients)
    names = dict.fromkeys(k for v in each.values() for k in v.metrics)
    metrics = {
        k: torch.cat([each[i].metrics.get(k, blank) if i in each else blank for i in everybody])
        for k in names
    }
    metrics["n"] = metrics["n"].nan_to_num(0.0)
    bins = [v.bins for v in each.values() if v.bins is not None]
    diagram = Reliability(*map(torch.cat, zip(*bins, strict=True))) if bins else None
    return Judged(metrics, None if diagram is None else pool(diagram))


def together(each: Judged) -> Judged:
    """The rows of all sites as one set, for metrics that do not need the rows."""
    n = each.metrics["n"]
    share = n / n.sum()
    metrics = {
        k: (share * v.nan_to_num(0.0)).sum()[None] for k, v in each.metrics.items() if k in ROWWISE
    }
    if "rmse" in each.metrics:
        metrics["rmse"] = (share * each.metrics["rmse"].nan_to_num(0.0) ** 2).sum().sqrt()[None]
    if each.bins is not None:
        metrics |= {"ece": ece(each.bins), "mce": mce(each.bins)}
    return Judged({"n": n.sum()[None], **metrics}, each.bins)
