"""Who holds which class: bubbles for few clients, a heat map for many."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError
from unalike.report.plots.canvas import BLUE, GREY, finish, inline

if TYPE_CHECKING:
    import altair as alt
    from altair.typing import ChartType

BUBBLES_UP_TO = 40  # clients
COLUMNS = 150  # of a heat map; with more clients, neighbours share a column
ROWS = 100  # of any picture; with more classes, the rarest share the last row
COARSE = 3  # times fewer columns and rows where room is scarce
SHADES = ("#F3F7FA", "#9CCAE6", "#0072B2", "#00304D")  # of one hue, so grey print keeps the order


def partition_plot(
    counts: ArrayLike,
    class_names: Sequence[str] = (),
    title: str = "Who holds which class",
    emd: float | None = None,
    coarse: bool = False,
    client_names: Sequence[str] = (),
) -> "ChartType":
    """Examples of each class at each client, with the clients' sizes above.

    With many clients the colour is a class's share of the client's examples, the clients are sorted
    by their largest class, and with very many neighbours are averaged. Of very many classes the
    rarest share a row.

    Args:
        counts: [clients, classes] examples.
        class_names: Names of the classes; their numbers if empty.
        title: Title of the figure.
        emd: Skew to be named below the title.
        coarse: Whether to draw fewer columns and rows, for a smaller file.
        client_names: Names of the clients, which few of them are shown with; numbers if empty.
    """
    n = np.asarray(counts, float)
    if n.ndim != 2 or 0 in n.shape or not (np.isfinite(n).all() and (n >= 0).all()):
        raise DataError(
            f"counts must be a table [clients, classes] of numbers >= 0, got shape {n.shape}."
        )
    names = list(class_names) or [str(c) for c in range(n.shape[1])]
    if len(names) != n.shape[1] or len(set(names)) < len(names):
        raise DataError(
            f"class_names must hold {n.shape[1]} different names, got {len(set(names))}."
        )
    facts = [f"{len(n):,} clients", f"{n.sum():,.0f} examples"]
    facts += [] if emd is None else [f"EMD {emd:.3f}"]
    told = f"Examples of each of {n.shape[1]} classes at each client: {', '.join(facts)}."
    factor = COARSE if coarse else 1
    n, names = _most_frequent(n, names, ROWS // factor)
    if len(n) <= BUBBLES_UP_TO:
        chart = _bubbles(n, names, list(client_names)[: len(n)])
    else:
        chart = _heat_map(n, names, COLUMNS // factor)
    return finish(chart, title, " · ".join(facts), told)


def _most_frequent(
    n: NDArray[np.float64], names: list[str], most: int
) -> tuple[NDArray[np.float64], list[str]]:
    """At most so many classes in their order; the rarest together are the last."""
    if len(names) <= most:
        return n, names
    by_size = np.argsort(-n.sum(0), kind="stable")
    kept, rest = np.sort(by_size[: most - 1]), by_size[most - 1 :]
    joined = np.column_stack([n[:, kept], n[:, rest].sum(1)])
    return joined, [*(names[c] for c in kept), f"{len(rest)} rarer classes"]


def _bubbles(n: NDArray[np.float64], names: list[str], who: list[str]) -> "ChartType":
    import altair as alt

    clients = len(n)
    axis: dict[str, Any] = {"labelAngle": 0}
    if who:
        axis = {"labelAngle": -45, "labelExpr": f"{json.dumps(who)}[datum.value]"}
    step = 26 if clients <= 20 else 18
    k, c = np.nonzero(n)
    called = {"client": np.array(who)[k]} if who else {}
    top = max(2.0, n.max().item())
    largest = 0.75 * step**2  # areas are proportional, but one example must remain visible
    bubbles = (
        alt.Chart(inline(column=k, label=np.array(names)[c], examples=n[k, c], **called))
        .mark_circle(color=BLUE, opacity=0.9)
        .encode(
            x=_columns(clients).axis(grid=True, **axis).title("client"),
            y=_classes(names).axis(grid=True),
            size=alt.Size("examples:Q")
            .scale(domain=[1, top], range=[max(3, largest / top), largest])
            .legend(
                title="examples", symbolFillColor=BLUE, symbolStrokeWidth=0, tickCount=min(4, top)
            ),
            tooltip=[
                alt.Tooltip("client:N" if who else "column:O", title="client"),
                alt.Tooltip("label:N"),
                alt.Tooltip("examples:Q"),
            ],
        )
        .properties(width=step * clients, height=_height(len(names)))
    )
    return _below_sizes(bubbles, n.sum(1), step * clients, ["examples"])


def _heat_map(n: NDArray[np.float64], names: list[str], columns: int) -> "ChartType":
    import altair as alt

    clients, sizes = len(n), n.sum(1)
    share = n / np.maximum(sizes, 1)[:, None]
    order = np.lexsort((-share.max(1), share.argmax(1)))
    first = np.unique(np.linspace(0, clients, min(clients, columns) + 1).round()[:-1].astype(int))
    members = np.diff(first, append=clients)
    share = np.add.reduceat(share[order], first) / members[:, None]
    sizes = np.add.reduceat(sizes[order], first) / members

    grouped = len(first) < clients
    width = len(first) * (5 if len(first) > 80 else 8)
    i, c = np.nonzero(share)
    # Not below four times an even share, or chance alone would look like skew.
    top = max(share.max().item(), min(1.0, 4 / len(names)))
    note = f", {members.min()} to {members.max()} averaged in a column" if grouped else ""
    heat = (
        alt.Chart(inline(column=i, label=np.array(names)[c], share=share[i, c]))
        .mark_rect()
        .encode(
            x=_columns(len(first))
            .axis(labels=False, ticks=False, domain=False)
            .title(f"clients, sorted by their largest class{note}"),
            y=_classes(names).axis(ticks=False, domain=False),
            color=alt.Color("share:Q")
            .scale(range=list(SHADES), domain=[0, top], interpolate="lab")
            .legend(title=["share of the", "client's examples"], format=".0%", tickCount=5),
            tooltip=[alt.Tooltip("label:N"), alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(
            width=width, height=_height(len(names)), view={"fill": SHADES[0], "stroke": None}
        )
    )
    return _below_sizes(heat, sizes, width, ["examples", "(mean)"] if grouped else ["examples"])


def _below_sizes(
    chart: "alt.Chart", sizes: NDArray[np.float64], width: int, title: list[str]
) -> "ChartType":
    import altair as alt

    bars = (
        alt.Chart(inline(column=np.arange(len(sizes)), size=sizes))
        .mark_bar(color=GREY)
        .encode(
            x=_columns(len(sizes)).axis(None),
            y=alt.Y("size:Q").axis(tickCount=2, grid=False, format=",.0f").title(title),
            tooltip=[alt.Tooltip("size:Q")],
        )
        .properties(width=width, height=54)
    )
    return alt.vconcat(bars, chart, spacing=8)


def _columns(n: int) -> Any:
    import altair as alt

    return alt.X("column:O").scale(domain=list(range(n)))


def _classes(names: list[str]) -> Any:
    import altair as alt

    return alt.Y("label:N").scale(domain=names).title("class")


def _height(classes: int) -> int:
    return classes * (22 if classes <= 20 else 11)
