"""Who talks to whom: servers, clients and the links between them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError
from unalike.report.plots.canvas import BLUE, GREY, INK, VERMILLION, finish, inline
from unalike.report.plots.weights import SHADES

if TYPE_CHECKING:
    from altair.typing import ChartType

DRAWN = 120  # clients; more are named in the subtitle
NAMED = 40  # clients with their numbers beside them
SIDE = 340  # pixels


def topology_plot(
    home: ArrayLike,
    links: ArrayLike | None = None,
    local: bool = False,
    title: str = "",
    skew: ArrayLike | None = None,
    cloud: bool = False,
) -> "ChartType":
    """The graph of a federation, laid out by networkx.

    Args:
        home: The server of each client.
        links: [edges, 2] pairs (j, i) of servers of which j hears i; None if nobody hears anybody.
        local: Whether a client is its own server, so that there are no servers to draw.
        title: Title of the figure.
        skew: How unlike the others' each client's labels are, as EMD; clients are shaded by it.
        cloud: Whether servers exchange models through one more server.
    """
    import altair as alt

    at = np.asarray(home, int)
    heard = np.zeros((0, 2), int) if links is None else np.asarray(links, int)
    if at.ndim != 1 or not len(at) or heard.ndim != 2 or heard.shape[1] != 2:
        raise DataError("home must be a vector over clients and links a list of pairs.")
    total, at = len(at), at[:DRAWN]
    graph = _graph(at, heard, local, cloud)
    place = _layout(graph, local)
    names = list(graph)
    spot = np.array([place[v] for v in names])
    middle, reach = (spot.max(0) + spot.min(0)) / 2, max(1e-9, np.ptp(spot, 0).max() / 2)
    place = {v: (p - middle) / reach for v, p in zip(names, spot, strict=True)}
    x, y = np.array([place[v] for v in names]).T
    kind = [v[0] for v in names]
    start, end = (np.array([place[e[i]] for e in graph.edges]).reshape(-1, 2) for i in (0, 1))
    sizes = {"client": min(110.0, 7000 / len(names)), "server": 260.0, "cloud": 420.0}
    columns: dict[str, Any] = {
        **{"x": x, "y": y, "kind": kind, "area": [sizes[k] for k in kind]},
        "name": [f"{k} {i}" for k, i in names],
    }
    if skew is not None:
        each = np.asarray(skew, float)
        columns["skew"] = [float(each[i]) if k == "client" else None for k, i in names]
    hidden: dict[str, Any] = {"axis": None, "scale": alt.Scale(domain=[-1.12, 1.12], nice=False)}
    edges = (
        alt.Chart(inline(x=start[:, 0], y=start[:, 1], x2=end[:, 0], y2=end[:, 1]))
        .mark_rule(color=GREY, opacity=0.45, strokeWidth=1)
        .encode(
            x=alt.X("x:Q", **hidden), y=alt.Y("y:Q", **hidden), x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q")
        )
    )
    nodes = [_nodes(columns, k, hidden) for k in sorted(set(kind))]
    if total <= NAMED:
        nodes.append(_numbers(columns, [i for _, i in names], hidden))
    servers = kind.count("server")
    facts = [f"{total:,} clients"]
    facts += [] if local else [f"{servers} server{'s' * (servers > 1)}"]
    facts += ["a cloud"] if "cloud" in kind else []
    facts += [f"{graph.number_of_edges()} links"]
    facts += [f"{DRAWN} clients drawn"] if total > DRAWN else []
    chart = alt.layer(edges, *nodes).resolve_scale(color="independent")
    chart = chart.properties(width=SIDE, height=SIDE)
    told = f"Graph of who talks to whom: {', '.join(facts)}."
    if skew is not None:
        told += f" Clients are shaded by their EMD, {each.min():.2f} to {each.max():.2f}."
    return finish(chart, title, " · ".join(facts), told)


def _nodes(columns: dict[str, Any], kind: str, hidden: dict[str, Any]) -> Any:
    """Clients as circles, shaded by their skew if it is known; servers as squares."""
    import altair as alt

    looks = {"client": ("circle", BLUE), "server": ("square", VERMILLION)}
    shape, plain = looks.get(kind, ("diamond", INK))
    here = [i for i, k in enumerate(columns["kind"]) if k == kind]
    rows = inline(**{name: [column[i] for i in here] for name, column in columns.items()})
    tooltip = [alt.Tooltip("name:N")]
    colour: Any = alt.Color("kind:N").scale(domain=[kind], range=[plain])
    colour = colour.legend(title=None, orient="bottom")
    if kind == "client" and "skew" in columns:
        tooltip.append(alt.Tooltip("skew:Q", title="EMD", format=".3f"))
        most = max(0.1, *(columns["skew"][i] for i in here))
        colour = alt.Color("skew:Q").scale(domain=[0, most], range=list(SHADES))
        colour = colour.legend(title="client, by its EMD", orient="bottom", gradientLength=160)
    return (
        alt.Chart(rows)
        .mark_point(filled=True, opacity=1, stroke="white", strokeWidth=1, shape=shape)
        .encode(
            x=alt.X("x:Q", **hidden),
            y=alt.Y("y:Q", **hidden),
            color=colour,
            size=alt.Size("area:Q").scale(None).legend(None),
            tooltip=tooltip,
        )
    )


def _numbers(columns: dict[str, Any], numbers: Sequence[int], hidden: dict[str, Any]) -> Any:
    """The clients' numbers, each a little further out than its circle."""
    import altair as alt

    here = [i for i, k in enumerate(columns["kind"]) if k == "client"]
    x, y = (np.asarray(columns[axis])[here] for axis in ("x", "y"))
    out = 0.08 / np.maximum(np.hypot(x, y), 0.08)
    rows = inline(x=x * (1 + out), y=y * (1 + out), number=[str(numbers[i]) for i in here])
    return (
        alt.Chart(rows)
        .mark_text(color=GREY, fontSize=10)
        .encode(x=alt.X("x:Q", **hidden), y=alt.Y("y:Q", **hidden), text="number:N")
    )


def _graph(home: NDArray[np.intp], heard: NDArray[np.intp], local: bool, cloud: bool) -> Any:
    import networkx as nx

    graph = nx.Graph()
    clients = [("client", i) for i in range(len(home))]
    graph.add_nodes_from(clients)
    owner = clients if local else [("server", int(j)) for j in range(int(home.max()) + 1)]
    graph.add_nodes_from(owner)
    drawn = heard[(heard < len(owner)).all(1)]  # servers of no drawn client are left out
    if cloud and len(owner) > 1:
        graph.add_edges_from((("cloud", 0), owner[j]) for j in np.unique(drawn))
    else:
        graph.add_edges_from((owner[j], owner[i]) for j, i in drawn if j != i)
    if not local:
        graph.add_edges_from((owner[s], c) for s, c in zip(home, clients, strict=True))
    return graph


def _layout(graph: Any, local: bool) -> dict[Any, Sequence[float]]:
    """Circles where the graph is one; else distances on the page that follow those in the graph."""
    import networkx as nx

    if local:
        degrees = {d for _, d in graph.degree}
        if len(degrees) == 1:
            return dict(nx.circular_layout(graph))
        return dict(nx.kamada_kawai_layout(graph))
    servers = [v for v in graph if v[0] == "server"]
    if len(servers) == 1:
        return dict(nx.shell_layout(graph, [servers, [v for v in graph if v[0] == "client"]]))
    centre = nx.circular_layout(servers, scale=0.55)
    place: dict[Any, Sequence[float]] = {v: (0.0, 0.0) for v in graph if v[0] == "cloud"}
    place |= {s: tuple(p) for s, p in centre.items()}
    for s in servers:
        mine = [v for v in graph[s] if v[0] == "client"]
        away = np.arctan2(centre[s][1], centre[s][0])  # from the other servers
        angle = away + np.linspace(-0.55, 0.55, len(mine)) * np.pi * (len(mine) > 1)
        reach = min(0.4, 0.55 * np.sin(np.pi / len(servers)) * 0.85)
        for v, a in zip(mine, angle, strict=True):
            place[v] = (centre[s][0] + reach * np.cos(a), centre[s][1] + reach * np.sin(a))
    return place
