"""Pictures of methods: costs, fairness, reliability, weights, topologies."""

import numpy as np
import pytest
from chart_rows import tables
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unalike.errors import DataError
from unalike.parts.topology import Clusters, Ring
from unalike.report.plots import (
    client_strip,
    consensus_plot,
    cost_curves,
    fairness_frontier,
    leak_plot,
    learning_curves,
    mixing_plot,
    node_curves,
    regret_plot,
    reliability_diagram,
    save,
    time_curves,
    topology_plot,
    weights_plot,
)
from unalike.report.plots.canvas import PALETTE
from unalike.report.plots.curves import POINTS
from unalike.report.plots.frontier import undominated
from unalike.report.plots.regret import _ticks
from unalike.report.plots.weights import relative_weights
from unalike.report.series import means

BINS = {"counts": [0, 2, 6], "accuracy": [None, 0.5, 1.0], "confidence": [None, 0.4, 0.9]}
POINTS_OF = [
    {"method": "fair", "mean": 0.7, "worst": 0.6},
    {"method": "strong", "mean": 0.9, "worst": 0.4},
    {"method": "strong", "mean": 0.8, "worst": 0.4},
    {"method": "neither", "mean": 0.6, "worst": 0.3},
]
MIXED = [
    {"round": 1, "clients": [0, 2], "weights": [0.25, 0.75]},
    {"round": 2, "clients": [1], "weights": [1.0]},
]


def sent(rounds=6):
    return [
        {"round": t, "method": m, "bytes": cost * t + seed, "accuracy": 0.1 * t}
        for m, cost in (("cheap", 10), ("dear", 20))
        for seed in (0, 2)
        for t in range(1, rounds + 1)
    ]


REGRET = [
    {"method": m, "round": t, "regret": 0.1 * t + seed - 0.05, "regret_bound": float(t)}
    for m in ("learner", "other")
    for seed in (0, 1)
    for t in (1, 2, 3)
]


APART = [
    {"method": m, "round": t, "consensus": c * 0.5**t}
    for m, c in (("ring", 1.0), ("torus", 2.0), ("idle", 0.0))
    for t in (1, 2, 3)
]


LEAKS = [
    {"method": m, "round": t, "leak": 0.3 * t, "without": 0.1 / t}
    for m in ("open", "closed")
    for t in (1, 2, 3)
]


CHARTS = {
    "cost": lambda: cost_curves(sent(), target=0.5),
    "time": lambda: time_curves([{**r, "clock": 2.5 * r["round"]} for r in sent()], target=0.5),
    "frontier": lambda: fairness_frontier(POINTS_OF),
    "a method alone": lambda: fairness_frontier(POINTS_OF[:1]),
    "reliability": lambda: reliability_diagram({"a": BINS, "it's [b].c": BINS}),
    "weights": lambda: weights_plot(MIXED, [5, 3, 9]),
    "many weights": lambda: weights_plot(
        [
            {"round": t, "clients": list(range(t % 7, 300, 9)), "weights": [0.1] * len(r)}
            for t in range(1, 200)
            for r in [range(t % 7, 300, 9)]
        ],
        np.arange(300),
    ),
    "regret": lambda: regret_plot(REGRET),
    "leaks": lambda: leak_plot(LEAKS, "taken for the target"),
    "star": lambda: topology_plot([0] * 20),
    "skewed star": lambda: topology_plot([0] * 20, skew=np.linspace(0, 1.5, 20)),
    "skewed ring": lambda: topology_plot(range(9), Ring().links(0, 9), local=True, skew=[0.0] * 9),
    "consensus": lambda: consensus_plot(APART),
    "nodes": lambda: node_curves([1, 2, 3], np.random.default_rng(0).random((3, 130))),
    "mixing": lambda: mixing_plot({"0": {"0": 0.5, "1": 0.5}, "1": {"0": 0.25, "1": 0.75}}, 2),
    "ring": lambda: topology_plot(Ring(2).home(9), Ring(2).links(0, 9), local=True),
    "clusters": lambda: topology_plot(Clusters(3).home(10), Clusters(3).links(0, 10)),
    "irregular": lambda: topology_plot(range(3), [(0, 1), (1, 0), (1, 2), (2, 1)], local=True),
}


def test_few_rounds_have_a_mark_each_and_none_between() -> None:
    """Two rounds that are two apart: the chart library would mark 2.5 as 3 beside 3."""
    apart = [{"round": t, "method": "a", "consensus": 1.0 / t} for t in (2, 4)]
    for chart in (consensus_plot(apart), node_curves([2, 4], [[0.5], [0.6]])):
        axes = [layer["encoding"]["x"]["axis"]["values"] for layer in chart.to_dict()["layer"]]
        assert axes == [[2, 4]] * len(axes)


def test_servers_that_agree_every_other_round_are_drawn_at_zero() -> None:
    """An axis of powers has no place for 0: it left these rounds out and joined the others."""

    def axis(*values: float) -> tuple[str, list[float]]:
        rows = [{"round": t + 1, "method": "a", "consensus": c} for t, c in enumerate(values)]
        idle = [{"round": 1, "method": "idle", "consensus": 0.0}]
        spec = consensus_plot([*rows, *idle]).to_dict()
        (line,) = [x for x in spec["layer"] if x["mark"]["type"] == "line"]
        drawn = [row for rows in spec["datasets"].values() for row in rows]
        return line["encoding"]["y"]["scale"]["type"], [row["mean"] for row in drawn]

    assert axis(0.3, 0.0, 0.2, 0.0) == ("linear", [0.3, 0.0, 0.2, 0.0])
    assert axis(0.4, 0.2, 0.1) == ("log", [0.4, 0.2, 0.1])


def test_small_graphs_have_numbers() -> None:
    """Of clients, not of servers."""
    small, large = (topology_plot([i % 2 for i in range(n)]).to_dict() for n in (5, 41))
    (text,) = [layer for layer in small["layer"] if layer["mark"]["type"] == "text"]
    rows = small["datasets"][text["data"]["name"]]
    assert [row["number"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert "text" not in [layer["mark"]["type"] for layer in large["layer"]]


def test_a_star_of_stars_goes_through_a_cloud() -> None:
    """Five clients, two servers, one cloud: seven links and none between servers."""
    stars = Clusters(2, cloud=True)
    drawn = topology_plot(stars.home(5), stars.links(0, 5), cloud=True, title="t").to_dict()
    assert drawn["title"]["subtitle"] == "5 clients · 2 servers · a cloud · 7 links"
    assert "a cloud" not in str(topology_plot(stars.home(5), stars.links(0, 5)).to_dict())


@pytest.mark.parametrize("name", CHARTS)
def test_renders(name, tmp_path):
    svg = save(CHARTS[name](), tmp_path / "figure.svg").read_text()
    assert svg.count("<path") > 5
    assert "NaN" not in svg
    assert "undefined" not in svg


@pytest.mark.parametrize(
    "chart",
    [
        lambda: learning_curves(sent()),
        lambda: cost_curves(sent()),
        lambda: fairness_frontier(POINTS_OF),
        lambda: client_strip({"a": [0.1, 0.2], "b": [0.5, 0.5]}),
        lambda: reliability_diagram({"a": BINS, "b": BINS}),
        lambda: regret_plot(REGRET),
        lambda: leak_plot(LEAKS, "taken for the target"),
    ],
)
def test_methods_can_be_switched(chart):
    spec = chart().to_dict()
    (shown,) = (p for p in spec["params"] if p["name"] == "shown")
    assert len(shown["value"]) >= 2
    assert "indexof(shown, datum.method)" in str(spec)


@pytest.mark.parametrize("name", CHARTS)
def test_every_picture_says_what_it_shows(name):
    assert len(CHARTS[name]().to_dict()["description"]) > 30


def test_bytes_are_averaged_over_repetitions():
    rows = tables(cost_curves(sent()))[0]
    cheap = [(r["round"], r["bytes"]) for r in rows if r["method"] == "cheap"]
    assert cheap == [(t, 10 * t + 1) for t in range(1, 7)]


def test_long_curves_are_thinned_but_keep_their_ends():
    rows = tables(learning_curves(sent(rounds=1000)))[0]
    rounds = [r["round"] for r in rows if r["method"] == "dear"]
    assert len(rounds) == POINTS
    assert (rounds[0], rounds[-1]) == (1, 1000)


def test_where_curves_end_is_said():
    words = learning_curves(sent()).to_dict()["description"]
    assert "cheap 60.00 % in round 6; dear 60.00 % in round 6" in words


def test_the_front_joins_what_nothing_beats():
    words = fairness_frontier(POINTS_OF).to_dict()["description"]
    assert words.endswith("Not dominated: fair, strong.")
    assert "strong 85.00 % and 40.00 %" in words


def test_of_a_loss_less_is_better():
    words = fairness_frontier(POINTS_OF, "loss").to_dict()["description"]
    assert words.endswith("Not dominated: neither.")


@given(arrays(float, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(0, 4)))
def test_undominated_by_definition(points):
    def beaten(a):
        return any((b >= a).all() and (b > a).any() for b in points)

    assert undominated(points).tolist() == [i for i, a in enumerate(points) if not beaten(a)]


def test_reliability_draws_full_bins_and_says_the_gap():
    chart = reliability_diagram({"a": BINS})
    rows = [r for t in tables(chart) for r in t if "share" in r]
    assert rows == [
        {"method": "a", "confidence": 0.4, "accuracy": 0.5, "share": 0.25},
        {"method": "a", "confidence": 0.9, "accuracy": 1.0, "share": 0.75},
    ]
    assert "a 0.100" in chart.to_dict()["description"]


def test_bins_of_a_few_predictions_are_not_drawn():
    bins = {"counts": [9, 10, 30], "accuracy": [0.0, 0.5, 0.5], "confidence": [0.5, 0.5, 0.5]}
    chart = reliability_diagram({"a": bins})
    rows = [r for t in tables(chart) for r in t if "share" in r]
    assert [r["accuracy"] for r in rows] == [0.5, 0.5]
    assert "a 0.092" in chart.to_dict()["description"]  # but they count: 9 / 49 * 0.5


def test_where_every_client_is_its_own_server_all_weigh_the_same():
    alone = [{"round": 1, "clients": [0, 1, 2], "weights": [1.0, 1.0, 1.0]}]
    assert relative_weights(alone, 3)[0].tolist() == [[1, 1, 1]]


def test_weights_are_relative_to_an_equal_share():
    share, seen = relative_weights(MIXED, 3)
    assert share.tolist() == [[0.5, 0, 1.5], [0, 1, 0]]
    assert seen.tolist() == [[True, False, True], [False, True, False]]


def test_the_largest_client_is_on_top_and_the_absent_are_not_drawn():
    rows = tables(weights_plot(MIXED, [5, 3, 9]))[0]
    assert {(r["client"], r["row"], r["share"]) for r in rows} == {
        ("2", 0, 1.5),
        ("0", 1, 0.5),
        ("1", 2, 1.0),
    }


def test_averages_of_many_weights_keep_their_mean():
    rng = np.random.default_rng(0)
    records = [
        {"round": t, "clients": list(range(120)), "weights": rng.dirichlet(np.ones(120))}
        for t in range(1, 241)
    ]
    rows = tables(weights_plot(records, np.ones(120)))[0]
    assert len(rows) == 60 * 40
    assert np.mean([r["share"] for r in rows]) == pytest.approx(1, abs=1e-5)


def test_regret_is_drawn_between_its_least_and_most_under_its_bound():
    rows = [r for r in tables(regret_plot(REGRET))[0] if r["method"] == "learner"]
    wanted = [(t, 0.1 * t + 0.45, 0.1 * t - 0.05, 0.1 * t + 0.95, t) for t in (1, 2, 3)]
    keys = ("round", "mean", "low", "high", "regret_bound")
    assert [tuple(r[k] for k in keys) for r in rows] == [pytest.approx(w) for w in wanted]


def test_a_method_has_the_colour_it_has_among_all():
    alone = regret_plot(REGRET, among=["first", "other", "learner"]).to_dict()
    (colour,) = {
        tuple(layer["encoding"]["color"]["scale"]["range"])
        for layer in alone["layer"]
        if "scale" in layer["encoding"].get("color", {})
    }
    assert colour == (PALETTE[2], PALETTE[1])


def test_regret_below_zero_has_ticks():
    assert _ticks([-0.5, 30.0]) == pytest.approx([-0.01, -0.1, 0, 0.01, 0.1, 1, 10, 100])
    assert _ticks([0.0, 0.0]) == [0, 0.01]


def test_a_leak_is_beside_what_there_is_without_the_attack():
    rows = [r for r in tables(leak_plot(LEAKS, "taken"))[0] if r["method"] == "open"]
    assert [(r["round"], r["mean"], r["without"]) for r in rows] == [
        pytest.approx((t, 0.3 * t, 0.1 / t), abs=1e-4) for t in (1, 2, 3)
    ]
    told = leak_plot(LEAKS, "taken").to_dict()["description"]
    assert "open 90.0% beside 3.3% in round 3" in told


def test_a_topology_names_its_parts():
    facts = topology_plot(Clusters(3).home(10), Clusters(3).links(0, 10), title="t").to_dict()
    assert facts["title"]["subtitle"] == "10 clients · 3 servers · 13 links"
    many = topology_plot([0] * 500, title="t").to_dict()["title"]["subtitle"]
    assert many == "500 clients · 1 server · 120 links · 120 clients drawn"


def test_servers_of_clients_that_are_not_drawn_are_left_out():
    servers = np.arange(200)
    ring = np.column_stack([servers, (servers + 1) % 200])
    facts = topology_plot(np.arange(500) % 200, ring, title="t").to_dict()["title"]["subtitle"]
    assert facts == "500 clients · 120 servers · 239 links · 120 clients drawn"  # 120 + 119


def test_clients_are_shaded_by_their_skew():
    chart = topology_plot([0] * 3, skew=[0.1, 0.9, 0.4])
    clients = next(t for t in tables(chart) if "skew" in t[0] and t[0]["kind"] == "client")
    assert [c["skew"] for c in clients] == [0.1, 0.9, 0.4]
    assert "0.10 to 0.90" in chart.to_dict()["description"]


def test_the_cells_of_a_combination_are_its_weights():
    chart = mixing_plot({"0": {"0": 0.5, "2": 0.5}, "2": {"2": 1.0}}, 3)
    cells = {(c["hears"], c["heard"]): c["w"] for t in tables(chart) for c in t}
    assert cells == {(0, 0): 0.5, (0, 2): 0.5, (2, 2): 1.0}


def test_neighbours_on_a_ring_are_joined():
    chart = topology_plot(Ring(1).home(5), Ring(1).links(0, 5), local=True)
    edges = next(t for t in tables(chart) if "x2" in t[0])
    lengths = {round(np.hypot(e["x"] - e["x2"], e["y"] - e["y2"]), 3) for e in edges}
    assert len(edges) == 5
    assert len(lengths) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cost_curves([{"round": 1, "method": "a"}]), "record 0 must have .* 'bytes'"),
        (lambda: time_curves([{"round": 1, "method": "a"}]), "record 0 must have .* 'clock'"),
        (lambda: fairness_frontier([]), "needs a finite 'mean' and 'worst'"),
        (
            lambda: fairness_frontier([{"method": "a", "mean": np.nan, "worst": 0}]),
            "needs a finite 'mean' and 'worst'",
        ),
        (lambda: reliability_diagram({}), "at least one method"),
        (lambda: reliability_diagram({"a": {"counts": [1]}}), "'a' must have 'accuracy'"),
        (lambda: reliability_diagram({"a": {**BINS, "counts": [0, 0, 0]}}), "not empty"),
        (lambda: reliability_diagram({"a": {**BINS, "counts": [1]}}), "of one length"),
        (lambda: weights_plot([], [1]), "nothing was mixed"),
        (lambda: regret_plot([]), "no record has a finite 'regret'"),
        (lambda: consensus_plot([]), "no record has a finite 'consensus'"),
        (lambda: node_curves([1, 2], [[0.5]]), "a row for each round"),
        (lambda: mixing_plot({}, 3), "1 to 60 nodes can be drawn"),
        (lambda: mixing_plot({"0": {"0": 1.0}}, 61), "1 to 60 nodes can be drawn, got 61"),
        (lambda: topology_plot([]), "home must be a vector"),
        (lambda: topology_plot([0], [0, 1]), "links a list of pairs"),
    ],
)
def test_what_cannot_be_drawn_is_named(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_worst_tenths_of_several_runs_are_those_of_the_table():
    """Two runs of two clients: their worst tenths are 0.1 and 0.5, the worst of all four 0.1."""
    points = [
        {"method": "a", "mean": 0.2, "worst": 0.1},
        {"method": "a", "mean": 0.6, "worst": 0.5},
    ]
    (mean, worst) = means(points)["a"]
    assert (mean, worst) == pytest.approx((0.4, 0.3))
    told = client_strip({"a": [0.1, 0.3, 0.5, 0.7]}, means={"a": (mean, worst)}).to_dict()
    assert "a: mean 40.00 %, worst tenth 30.00 %" in told["description"]
