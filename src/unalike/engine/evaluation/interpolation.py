"""The line from the shared model to a client's own: tested at several points, chosen in three ways.

W(l) = (1 - l) w_shared + l w_own,   l = 0, ..., 1

local     at the point that the method is set to, or by the client's own model
common    at the point with the best mean over clients on validation rows, the same for everybody
oracle    each client at the point that is best on its own *test* rows: what nobody could choose,
          and what published numbers with "the best lambda" are
If a method has a single model per client, the three are the same, so that it can be compared with
others in all of them. Without validation rows nobody has a ``common`` point.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unalike.metrics.catalogue import higher
from unalike.tasks import Judged

MARK = "@"  # between a section and a point of the line


def points(number: int) -> list[float]:
    """That many points from 0 to 1, as they are written."""
    return [round(i / (number - 1), 6) for i in range(number)] if number else []


def name(section: str, point: float) -> str:
    """The name of a section's results at one point of the line."""
    return f"{section}{MARK}{point:g}"


def chosen(found: Mapping[str, Judged], metric: str) -> tuple[dict[str, Judged], dict[str, Any]]:
    """The sections ``common`` and ``oracle``, and the line itself for the record.

    ``found`` has the verdicts of clients by section and, where there is a line, by point. Of equal
    points the one nearest to the shared model is taken.
    """
    at = [float(k.partition(MARK)[2]) for k in found if k.startswith(f"local{MARK}")]
    if "local" not in found:
        return {}, {}
    if not at:
        both = ("common", "oracle") if "validation" in found else ("oracle",)
        return dict.fromkeys(both, found["local"]), {}
    local = [found[name("local", p)] for p in at]
    values = torch.stack([j.metrics[metric] for j in local])  # [points, clients]
    each = _best(values, metric)
    metrics = {
        k: torch.stack([j.metrics[k] for j in local]).gather(0, each[None])[0]
        for k in local[0].metrics
    }
    sections = {"oracle": Judged(metrics, None)}
    told: dict[str, Any] = {
        "at": at,
        "oracle": [at[i] for i in each.tolist()],
        "local": _means(local),
    }
    tuning = [found[name("validation", p)] for p in at if name("validation", p) in found]
    if len(tuning) == len(at):
        mean = torch.stack([j.metrics[metric].double().nanmean() for j in tuning])
        i = int(_best(mean[:, None], metric)[0])
        sections = {"common": local[i], **sections}
        told |= {"common": at[i], "validation": _means(tuning)}
    return sections, told


def _best(values: Tensor, metric: str) -> Tensor:
    """The place of the best value in each column; undefined ones are never the best."""
    worst = -torch.inf if higher(metric) else torch.inf
    known = torch.where(values.isnan(), worst, values)
    return known.argmax(0) if higher(metric) else known.argmin(0)


def _means(judged: Sequence[Judged]) -> dict[str, list[float]]:
    """The mean over clients of every metric, point by point."""
    names = [k for k in judged[0].metrics if k != "n"]
    return {k: [float(j.metrics[k].double().nanmean()) for j in judged] for k in names}
