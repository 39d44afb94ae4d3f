"""How much each client counted, round by round."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError
from unalike.report.plots.canvas import finish, inline

if TYPE_CHECKING:
    from altair.typing import ChartType

COLUMNS, ROWS = 60, 40  # beyond, neighbouring rounds and clients of like size are averaged
SHADES = ("#C7E9B4", "#7FCDBB", "#41B6C4", "#225EA8", "#081D58")  # darker is more, in grey too


def weights_plot(
    records: Sequence[Mapping[str, Any]], sizes: ArrayLike, title: str = ""
) -> "ChartType":
    """A client's weight over the round's mean weight: 1 is an equal share, white was absent.

    Args:
        records: Dicts with ``round``, ``clients`` (ids) and ``weights``, in the order of rounds.
        sizes: Examples of every client; the largest client is drawn on top.
        title: Title of the figure.
    """
    import altair as alt

    share, seen = relative_weights(records, len(np.asarray(sizes)))
    order = np.argsort(-np.asarray(sizes, float), kind="stable")
    share, seen = share[:, order], seen[:, order]
    first, last = records[0]["round"], records[-1]["round"]
    by_round, by_client = _groups(len(records), COLUMNS), _groups(len(order), ROWS)
    total = np.add.reduceat(np.add.reduceat(share, by_round, 0), by_client, 1)
    count = np.add.reduceat(np.add.reduceat(seen.astype(int), by_round, 0), by_client, 1)
    t, k = np.nonzero(count)
    value = total[t, k] / count[t, k]
    starts = np.array([r["round"] for r in records])[by_round]
    ends = np.append(starts[1:], last + 1)
    many = len(by_client) < len(order)
    label = "clients, the largest on top" + (", neighbours averaged" if many else "")
    tooltip = [
        alt.Tooltip("round:Q"),
        alt.Tooltip("client:N"),
        alt.Tooltip("share:Q", title="of an equal share", format=".2f"),
    ]
    names = _names(order, by_client)
    cells = inline(round=starts[t], end=ends[t], row=k, next=k + 1, share=value, client=names[k])
    chart = (
        alt.Chart(cells)
        .mark_rect()
        .encode(
            x=alt.X("round:Q", title="round")
            .scale(domain=[int(first), int(last) + 1], nice=False, zero=False)
            .axis(tickMinStep=1, format="d", grid=False),
            x2=alt.X2("end:Q"),
            y=alt.Y("row:Q", title=label)
            .scale(domain=[len(by_client), 0], nice=False)
            .axis(labels=False, ticks=False, grid=False),
            y2=alt.Y2("next:Q"),
            color=alt.Color("share:Q")
            .scale(range=list(SHADES), domain=[0, max(2.0, float(value.max()))])
            .legend(
                title="weight (1: an equal share; white: absent)",
                orient="bottom",
                gradientLength=180,
                titleLimit=400,
            ),
            tooltip=tooltip,
        )
        .properties(width=460, height=max(90, min(300, 13 * len(by_client))))
    )
    effective = _effective(records)
    told = (
        f"Weights of {len(order)} clients in rounds {first} to {last}. On average a round is "
        f"carried by {effective:.1f} clients' worth of equal weights."
    )
    return finish(chart, title, description=told)


def relative_weights(
    records: Sequence[Mapping[str, Any]], n_clients: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """[rounds, clients] weight over the round's mean weight, and who took part."""
    if not any(len(r["clients"]) for r in records):
        raise DataError("no record has a client with a weight; nothing was mixed.")
    share, seen = np.zeros((len(records), n_clients)), np.zeros((len(records), n_clients), bool)
    for row, taken, record in zip(share, seen, records, strict=True):
        ids = np.asarray(record["clients"], int)
        taken[ids] = True
        weights = np.asarray(record["weights"], float)
        row[ids] = weights / weights.mean() if weights.any() else weights
    return share, seen


def _effective(records: Sequence[Mapping[str, Any]]) -> float:
    """Mean over rounds of (sum p)^2 / sum p^2."""
    weights = [np.asarray(r["weights"], float) for r in records if len(r["weights"])]
    found = [p.sum() ** 2 / (p @ p) for p in weights if p.any()]
    return float(np.mean(found)) if found else 0.0


def _groups(n: int, most: int) -> NDArray[np.intp]:
    """Where each of at most ``most`` groups of neighbours begins."""
    return np.unique(np.linspace(0, n, min(n, most) + 1).round()[:-1].astype(int))


def _names(order: NDArray[np.intp], first: NDArray[np.intp]) -> NDArray[np.str_]:
    size = np.diff(first, append=len(order))
    return np.array(
        [
            str(order[i]) if n == 1 else f"{n} clients from {order[i]} on"
            for i, n in zip(first, size, strict=True)
        ]
    )
