"""What a round costs as clients, cohort, parameters and steps grow, one of them at a time.

    python benchmarks/cost.py [--rounds 5]    (records and picture, a few minutes)
    python benchmarks/cost.py --draw          (the picture alone, from the records)

A perceptron of two layers on random tables of 32 columns, batches of 10; `auto` and a bare loop on
one thread take turns, as in engines.py. Where nothing else is said: 1,000 registered clients, 100 a
round, 48,810 parameters (two layers of 200), six steps. Evaluation not counted.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import engines

FEATURES, CLASSES, BATCH = 32, 10, 10
USUAL = {"clients": 1000, "cohort": 100, "units": 200, "steps": 6}
GRID = {
    "clients": [100, 1000, 10_000, 100_000],
    "cohort": [10, 30, 100, 300, 1000],
    "units": [20, 60, 200, 600, 1500],
    "steps": [1, 2, 6, 20, 60],
}
TITLES = {"clients": "registered clients", "cohort": "clients in a round"}
TITLES |= {"parameters": "parameters", "steps": "local steps of a client"}
SIDES = {"bare": "bare loop", "fast": "unalike"}
RESULTS = Path(__file__).resolve().parent.parent / "docs"
RECORDS, PICTURE = RESULTS / "results" / "speed-cost.jsonl", RESULTS / "images" / "cost.svg"


def work(clients: int, cohort: int, units: int, steps: int) -> engines.Work:
    settings = {"hidden": [units, units]}
    each = steps * BATCH
    return engines.Work("mlp", (FEATURES,), clients, each, cohort, BATCH, CLASSES, settings)


def points() -> dict[str, tuple[str, dict[str, int]]]:
    """By name: what varies, and everything it is measured at."""
    return {
        f"{what} {value}": (what, {**USUAL, what: value})
        for what, values in GRID.items()
        for value in values
    }


# Here, because every side's process reads this file, and then finds the work that it is told.
engines.WORK |= {name: work(**point) for name, (_, point) in points().items()}


def parameters(units: int) -> int:
    return (FEATURES + 1) * units + (units + 1) * units + (units + 1) * CLASSES


def measure(rounds: int) -> None:
    options, found = engines.Options("cpu", 2, "equal"), list[dict[str, Any]]()
    for name, (what, point) in points().items():
        timed = engines.measure(name, list(SIDES), options, rounds)
        times = {f"{side}_s": timed[f"{side}_s"] for side in SIDES}
        size = {"parameters": parameters(point["units"])}
        varies = {"varies": "parameters" if what == "units" else what}
        found.append({**varies, **point, **size, **times})
        print(json.dumps(found[-1]), flush=True)
    RECORDS.write_text("".join(json.dumps(line) + "\n" for line in found))


def draw() -> None:
    """Four panels with logarithmic axes, black on white."""
    import altair as alt
    import vl_convert

    found = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    ink, grid = "#1a1a1a", "#dddddd"
    look = {"labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink}
    names = list(SIDES.values())
    colours = alt.Scale(domain=names, range=["#767676", "#0b63a5"])
    shapes = alt.Scale(domain=names, range=["circle", "square"])
    slowest = max(line[f"{side}_s"] for line in found for side in SIDES)
    powers = [10**k for k in range(6) if 10 ** (k - 1) < 1000 * slowest]
    tall = alt.Scale(type="log", domain=[powers[0], powers[-1]], nice=False, clamp=True)
    panels = []
    for what, title in TITLES.items():
        rows = [
            {"at": line[what], "ms": 1000 * line[f"{side}_s"], "side": name}
            for line in found
            if line["varies"] == what
            for side, name in SIDES.items()
        ]
        at = sorted({row["at"] for row in rows})
        scale = alt.Scale(type="log", domain=[at[0] / 1.15, at[-1] * 1.15], nice=False)
        axis = alt.Axis(values=at, format=".2~s", grid=False, labelOverlap=False)
        axes = {
            "x": alt.X("at:Q", title=title, scale=scale, axis=axis),
            "y": alt.Y("ms:Q", title="a round, ms", scale=tall, axis=alt.Axis(values=powers)),
            "color": alt.Color("side:N", title=None, scale=colours),
            "shape": alt.Shape("side:N", title=None, scale=shapes),
        }
        base = alt.Chart(alt.Data(values=rows)).encode(**axes)
        lines = base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=60, opacity=1)
        panels.append(lines.properties(width=260, height=170))
    chart = alt.vconcat(alt.hconcat(*panels[:2]), alt.hconcat(*panels[2:]), spacing=24)
    chart = chart.configure(background="white", padding=16, font="sans-serif")
    chart = chart.configure_axis(gridColor=grid, labelFontSize=12, titleFontSize=13, **look)
    chart = chart.configure_legend(orient="top", labelFontSize=13, labelColor=ink, symbolSize=90)
    PICTURE.write_text(vl_convert.vegalite_to_svg(chart.to_dict()))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--draw", action="store_true")
    asked = options.parse_args()
    if not asked.draw:
        measure(asked.rounds)
    draw()


if __name__ == "__main__":
    main()
