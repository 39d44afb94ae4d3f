"""The pictures of a study: which there are, what each shows, and its specification for the page."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unalike.compare.statistics.ranks import Ranks
from unalike.errors import DataError
from unalike.federation.skew import emd_per_client
from unalike.metrics.catalogue import MAIN, POOLED, TESTS
from unalike.metrics.catalogue import metric as looked_up
from unalike.report import plots, series
from unalike.report.html.settings import worded
from unalike.report.records import Record, Run, Study
from unalike.report.skew import cell as skew_cell
from unalike.tables.format import decimal, p_value

if TYPE_CHECKING:
    from altair.typing import ChartType

SPREAD_FROM = 41  # clients; fewer are all seen in the picture of the partition
WEIGHTS = 4  # pictures of weights for a partition


class Figure(NamedTuple):
    """One picture; its description is read to those who cannot see it."""

    id: str
    title: str
    caption: str
    spec: Record
    alt: str
    fluid: bool  # whether it takes the width it is given
    wide: bool  # whether it needs a row of its own


def data_figures(study: Study, partition: str, number: int, coarse: bool = False) -> list[Figure]:
    """Who holds what."""
    run = series.first_run(study, partition)
    if run is None:
        return []
    counts, classes = run.data["counts"], run.data.get("classes") or ()
    clients = run.data.get("names") or ()
    emd = skew_cell("emd", run.data["skew"]["emd"]).text
    ranges = run.data.get("ranges")
    found = [
        figure(
            f"partition-{number}",
            f"Who holds which {'range of the target' if ranges else 'class'}",
            f"{partition}, seed {run.config['seed']}: size-weighted mean EMD {emd} "
            f"from the {'ranges' if ranges else 'classes'} of all clients together.",
            lambda: plots.partition_plot(counts, classes, "", None, coarse, clients),
        )
    ]
    if len(counts) >= SPREAD_FROM:
        table = np.array(counts, float)
        found.append(
            figure(
                f"spread-{number}",
                "How the clients differ",
                "Label skew and size of every client; a tick is a client.",
                lambda: plots.spread_plot(emd_per_client(table), table.sum(1), title=""),
            )
        )
    return [f for f in found if f is not None]


def result_figures(study: Study, partition: str, number: int) -> list[Figure]:
    """How well every method did, at what cost, and for whom."""
    metric = study.metric
    several = len(study.methods) > 1
    seeds = len({c.seed for c, _ in study.begun if c.partition == partition})
    band = f"; bands span {seeds} seeds" if seeds > 1 else ""
    pooled = f" of {seeds} seeds" if seeds > 1 else ""
    which = "the round selected on validation data"
    which = which if study.chosen == "selected" else "the last round"
    named = looked_up(metric).title
    better = "up and to the right" if looked_up(metric).higher else "down and to the left"
    several_tests = series.spread_over_clients(study)
    whose = f"all clients{pooled} together" if several_tests else f"{TESTS[POOLED]}{pooled}"
    single = len(study.places) == 1
    rows = series.tests(study) if single else series.curves(study, partition)
    timed = [row for row in rows if "clock" in row]
    title = named[0].upper() + named[1:]
    section = series.section_of(study)
    tested = title if single else f"{title} on {TESTS.get(section, section)}"
    each = series.clients(study, partition)
    bins = series.reliability(study, partition)
    points = series.frontier(study, partition)
    target = _target(study)

    def strip() -> "ChartType":
        values, sizes = ({m: pair[i] for m, pair in each.items()} for i in (0, 1))
        means = series.means(points)
        return plots.client_strip(values, metric, "", sizes, means)

    found = [
        figure(
            f"curves-{number}",
            "Learning curves",
            f"{tested} after each evaluated round{band}.",
            lambda: plots.learning_curves(rows, metric, target=target),
        ),
        figure(
            f"cost-{number}",
            f"{title} against bytes",
            f"The same {named} against everything sent so far{band}.",
            lambda: plots.cost_curves(rows, metric, target=target),
        ),
        figure(
            f"time-{number}",
            f"{title} against time",
            f"The same {named} against the seconds of the simulated clock so far{band}.",
            lambda: plots.time_curves(timed, metric, target=target),
        )
        if timed
        else None,
        figure(
            f"clients-{number}",
            "Every client",
            f"{title} of each client{pooled} in {which}.",
            strip,
        ),
        figure(
            f"frontier-{number}",
            "Fairness frontier",
            f"Average client against the worst tenth, in {which}; {better} is better."
            + (" Faint points are single seeds." if seeds > 1 else "")
            + " A dashed line joins the methods that no other beats in both, if there are several.",
            lambda: plots.fairness_frontier(points, metric),
        )
        if several
        else None,
        figure(
            f"reliability-{number}",
            "Reliability",
            f"Accuracy of predictions by their confidence, {whose}, in {which}; the larger a "
            "point, the more predictions (bins of fewer than ten are left out). Above the "
            "dotted line a method is underconfident, below it overconfident.",
            lambda: plots.reliability_diagram(bins),
        ),
    ]
    return [f for f in found if f is not None]


def leak_figures(study: Study, partition: str, number: int) -> list[Figure]:
    """What an outsider could do with the models, where it was measured."""
    doors, told = series.backdoor(study, partition), series.membership(study, partition)
    found = [
        figure(
            f"backdoor-{number}",
            "Success of the backdoor",
            f"{partition}. Test rows of other classes that the servers' models take for the "
            "attackers' target with the trigger on them; in grey without it.",
            lambda: plots.leak_plot(doors, "taken for the target", among=study.methods),
        ),
        figure(
            f"membership-{number}",
            "Whose rows were trained on",
            f"{partition}. Area under the curve of an attack that tells a client's training rows "
            "from its test rows by their losses, mean over clients; in grey a coin flip.",
            lambda: plots.leak_plot(told, "area under the curve", among=study.methods),
        ),
    ]
    return [f for f in found if f is not None]


def rank_figures(methods: Sequence[str], ranks: Ranks | None) -> list[Figure]:
    """Who is ahead on how many partitions, where there are enough of them."""
    if ranks is None:
        return []
    means = dict(zip(methods, ranks.mean.tolist(), strict=True))
    groups = [[methods[i] for i in group] for group in ranks.groups()]
    made = figure(
        "ranks",
        "Mean ranks over all partitions",
        "A black bar joins methods whose mean ranks are closer than the critical difference "
        f"(orange, {decimal(ranks.apart, 2)}): Nemenyi's test cannot tell them apart. Friedman's "
        f"test of whether all are alike: {p_value(ranks.p)}. Partitions count as draws from all "
        "that you might meet.",
        lambda: plots.rank_plot(means, groups, ranks.apart),
    )
    return [] if made is None else [made]


def weight_figures(study: Study, partition: str, number: int, coarse: bool = False) -> list[Figure]:
    """How much the clients counted."""
    found = []
    for i, group in enumerate(series.weights(study, partition)[: 1 if coarse else WEIGHTS]):
        made = figure(
            f"weights-{number}-{i}",
            f"Weights: {', '.join(group.methods)}",
            f"{partition}, first seed. How much each client counted in each round.",
            lambda group=group: plots.weights_plot(group.records, group.sizes),  # type: ignore[misc]
        )
        found += [made] if made is not None else []
    rows = series.regret(study, partition)
    made = figure(
        f"regret-{number}",
        "Regret of the weights",
        f"{partition}. How much less the best fixed weights would have cost, in hindsight; in "
        "grey the bound that holds for any losses.",
        lambda: plots.regret_plot(rows, among=study.methods),
    )
    return found if made is None else [*found, made]


def topology_figures(study: Study) -> list[Figure]:
    """Who talks to whom, once for each kind of network in the study."""
    seen: dict[str, tuple[Run, Record]] = {}
    for _, run in study.begun:
        if run.data:
            table = run.config.get("topology", {"name": "star"})
            seen.setdefault(f"{sorted(table.items())} {run.data['clients']}", (run, table))
    found = [
        figure(
            f"topology-{i}",
            f"Topology: {table['name']}",
            f"Who exchanges models with whom: {worded(table, 'topology')}. {_when(table)}The "
            "darker a client, the more its classes differ from those of all clients together.",
            lambda run=run, table=table: _graph(table, run),  # type: ignore[misc]
            square=True,
        )
        for i, (run, table) in enumerate(seen.values())
    ]
    return [f for f in found if f is not None]


def _when(table: Record) -> str:
    """That links are those of one round, where other rounds have others; empty if not."""
    changes = table["name"] == "gossip" or table.get("one_peer") or table.get("redraw")
    lost = " and of these the links that are not lost" if table.get("link_loss") else ""
    if changes:
        return f"These are the neighbours of round 1{lost}; later ones have others. "
    return "These are the links that are not lost in round 1. " if lost else ""


def network_figures(study: Study, partition: str, number: int) -> list[Figure]:
    """Where there are several servers: how far apart, how good, and whom each one heeds."""
    rows = series.consensus(study, partition)
    if not rows:
        return []
    found = [
        figure(
            f"consensus-{number}",
            "How far apart the nodes are",
            f"{partition}. Root mean square distance of the servers' models from their mean, after "
            "each evaluated round.",
            lambda: plots.consensus_plot(rows, among=study.methods),
        )
    ]
    seen = dict[str, Run]()
    for place, run in study.begun:
        if place.partition == partition and any("consensus" in r for r in run.rounds):
            seen.setdefault(place.method, run)
    for i, (method, run) in enumerate(list(seen.items())[:WEIGHTS]):
        rounds, values = series.nodes(run, study.metric)
        last = next((r for r in reversed(run.rounds) if r.get("mixing")), None)
        found += [
            figure(
                f"nodes-{number}-{i}",
                f"Every node: {method}",
                f"{partition}, first seed. A faint line is a node's model on the common test rows; "
                "the strong one is their mean.",
                lambda r=rounds, v=values: plots.node_curves(r, v, study.metric),  # type: ignore[misc]
            ),
            figure(
                f"combination-{number}-{i}",
                f"Whom the nodes listen to: {method}",
                f"{partition}, first seed, round {last['round']}. A row is a node; a cell is how "
                "much it counts the node it hears."
                + (f" Spectral gap {last['spectral_gap']:.3g}." if "spectral_gap" in last else ""),
                lambda r=last: plots.mixing_plot(r["mixing"], _servers(r)),  # type: ignore[misc]
                square=True,
            )
            if last is not None
            else None,
        ]
    return [f for f in found if f is not None]


def _servers(record: Record) -> int:
    """How many servers a combination is of."""
    return max(int(j) for row in record["mixing"].values() for j in row) + 1


def _graph(table: Record, run: Run) -> "ChartType":
    from unalike.run.configuration.topologies import TOPOLOGIES

    name, n = str(table["name"]), int(run.data["clients"])
    if name not in TOPOLOGIES:
        raise DataError(f"topology '{name}' is unknown to this version.")
    made = TOPOLOGIES[name](**{k: v for k, v in table.items() if k != "name"}).build()
    links = next((x for t in range(100) if (x := made.links(t, n)) is not None), None)
    counts = np.array(run.data["counts"], float)
    skew = emd_per_client(counts) if len(counts) == n else None  # of many clients some are recorded
    return plots.topology_plot(made.home(n), links, made.local, skew=skew, cloud=made.cloud)


def _target(study: Study) -> float | None:
    """The value to reach, if all runs agree on one and it is of what is drawn."""
    if study.metric not in MAIN:
        return None
    found = {run.config.get("evaluation", {}).get("target") for _, run in study.begun}
    return next(iter(found)) if len(found) == 1 else None


def figure(
    id: str, title: str, caption: str, draw: Callable[[], "ChartType"], square: bool = False
) -> Figure | None:
    """The figure, unless there is nothing to draw yet; a square one keeps its shape."""
    try:
        spec = draw().to_dict(validate=False)
    except DataError:
        return None
    wide = bool({"vconcat", "hconcat"} & spec.keys())
    fluid = not wide and not square
    if fluid:
        spec["width"] = "container"
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec.pop("$schema", None)
    title_of = spec.pop("title", {})
    alt = spec.pop("description", title)
    spec["datasets"] = {name: _columns(rows) for name, rows in spec["datasets"].items()}
    spec["config"]["aria"] = False  # the page describes the picture as a whole
    subtitle = title_of.get("subtitle", "") if isinstance(title_of, dict) else ""
    caption = f"{caption} {subtitle}." if subtitle else caption
    return Figure(id, title, caption, spec, alt, fluid, wide)


def _columns(rows: Sequence[Record]) -> dict[str, list[Any]]:
    """The data of a chart by column, which names each of them once; the page makes rows of it."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
