"""Personal models tested on other clients' data: who benefits from whom.

In a real federation neither models nor rows leave their owner, so this can be measured only in
simulations.
"""

from collections.abc import Sequence
from typing import Any

import torch

from unalike.engine.evaluation.client import Examiner
from unalike.engine.evaluation.judging import outputs
from unalike.tree import Params, Tree


def cross(
    examiner: Examiner,
    downs: Tree,
    most: int,
    metric: str,
    models: Sequence[Params | None] = (None,),
) -> dict[str, Any]:
    """The metric of the model of each of some clients (rows) on the test rows of each (columns).

    The first ``most`` clients with test rows: their numbers mean nothing. Empty if all clients have
    the same model, because neither a method nor a graph gives them different ones. ``models`` are
    the servers', for clients that are tested with their server's.
    """
    rows = examiner.own.get("local")
    if rows is None or (examiner.servers == 1 and not examiner.algorithm.personal_models):
        return {}
    ids = [i for i in range(len(rows.sizes)) if rows.sizes[i]][:most]
    at = torch.cat([rows.of(i) for i in ids]).to(examiner.x.device)
    owner = torch.arange(len(ids)).repeat_interleave(torch.tensor([rows.sizes[i] for i in ids]))

    def judged(i: int) -> list[float]:
        who = int(examiner.acts_as[i])
        w = examiner.model(downs, who, models[int(examiner.home[who]) % len(models)])
        out = outputs(examiner.task, w, examiner.x[at], examiner.noise[at])
        found = examiner.task.judge(out, examiner.y[at], owner, len(ids))
        return [round(v, 6) for v in found.metrics[metric].tolist()]

    return {"metric": metric, "clients": ids, "values": examiner.each(judged, ids)}
