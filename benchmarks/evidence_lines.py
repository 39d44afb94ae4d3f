"""What benchmarks/evidence.py keeps of a run: one line, and of that what tables need."""

import json
from pathlib import Path
from typing import Any

SPREAD = ("mean", "std", "weighted_mean", "worst10", "min", "max", "gini")
MACRO = ("recall", "f1")  # means over classes
KEPT = ("accuracy", "loss", "auroc", "ece", "mce", *MACRO, "adversary", "fooled")


def digits(value: Any, places: int = 5) -> Any:
    """Numbers with as many places as a table could need."""
    if isinstance(value, float):
        return round(value, places)
    if isinstance(value, dict):
        return {k: digits(v, places) for k, v in value.items()}
    return [digits(v, places) for v in value] if isinstance(value, list) else value


def objective(records: list[dict[str, Any]]) -> dict[str, float]:
    """Losses of the received models, weighed and added up over rounds: sum over t of <p, F(w_t)>.

    ``decided``: p is what was decided before these losses were seen, at first the same for all;
    ``used``: the weights of the same round, which follow them; ``mean``: the same for all.
    Empty if the server does not hear every client's loss in every round.
    """
    everybody, found = records[0]["clients"], {"decided": 0.0, "used": 0.0, "mean": 0.0}
    same_for_all = [1 / max(len(everybody), 1)] * len(everybody)
    before = same_for_all
    for r in records:
        losses, weights = r.get("losses", []), r["weights"]
        if r["clients"] != everybody or not 0 < len(losses) == len(weights):
            return {}
        for name, p in {"decided": before, "used": weights, "mean": same_for_all}.items():
            found[name] += sum(a * b for a, b in zip(p, losses, strict=True))
        before = weights
    return found


def line(records: list[dict[str, Any]], last: dict[str, Any], clients: dict[str, Any]) -> dict:
    """What is kept of a run: curves of the mean, everything of the last round, the ledger."""
    judged = [r for r in records if r["metrics"]]
    main = next(m for m in ("accuracy", "loss") if m in next(iter(judged[-1]["metrics"].values())))
    sections = list(judged[-1]["metrics"])
    curve: dict[str, list[Any]] = {"round": [r["round"] for r in judged]}
    for s in sections:
        found = [r["metrics"].get(s, {}).get(main, {}).get("mean") for r in judged]
        curve[s] = digits(found, 4 if main == "accuracy" else 3)
    keep = {
        s: {
            m: {k: v for k, v in of.items() if k in SPREAD}
            for m, of in judged[-1]["metrics"][s].items()
            if m in KEPT
        }
        for s in sections
    }
    return {
        "curve": curve,
        "last": digits(keep),
        "selected": last["selected"] and last["selected"]["round"],
        **{k: last[k] for k in ("bytes_down", "bytes_up", "bytes_across", "parameters_all")},
        "weights": digits(records[-1]["weights"]) if len(records[-1]["weights"]) <= 20 else None,
        "clients": digits(clients, 4),
        **{k: digits(judged[-1][k]) for k in ("fid", "coverage", "consensus") if k in judged[-1]},
        **({"objective": digits(summed)} if (summed := objective(records)) else {}),
    }


def same(x: dict[str, Any]) -> str:
    """What names a run."""
    names = ("file", "condition", "label", "data", "partition", "init", "alpha", "seed")
    return json.dumps([x.get(name) for name in names])


def short(whole: dict[str, Any]) -> dict[str, Any]:
    """What tables need of a line."""
    about = {"file": Path(whole["file"]).stem, "seed": whole["seed"], "on": whole["on"]}
    if whole["file"] == "vae":
        names = ("data", "partition", "init", "alpha", "loss", "nonzero", "fallback_rounds", "d")
        return {**about, **{k: whole[k] for k in names}}
    about |= {k: whole[k] for k in ("condition", "label", "bytes_up", "bytes_down")}
    measures = dict.fromkeys(("superfed-noise", "superfed-noise-mnist"), ("accuracy", "ece", "mce"))
    measures |= dict.fromkeys(("berka", "berka-cdf", "heart"), ("accuracy", "auroc"))
    measures["lg-fair"] = ("accuracy", "auroc", "adversary", "fooled")
    measures |= dict.fromkeys(("superfed-line", "superfed-line-500"), ("accuracy",))
    measures["fedep-recall"] = ("accuracy", *MACRO)
    more = {"berka": ("gini",), "heart": ("gini",), "writers": ("worst10", "gini")}
    kept = ("mean", "weighted_mean", "min", *more.get(about["file"], ()))
    last = {
        s: {
            m: {k: of[m][k] for k in kept if k in of[m]}
            for m in measures.get(about["file"], ("accuracy",))
            if m in of
        }
        for s, of in whole["last"].items()
    }
    if about["file"].startswith("fedep") and about["file"] not in measures:
        about["clients"] = {k: v for k, v in whole["clients"].items() if k in ("local", "marks")}
    about |= {k: whole[k] for k in ("fid", "coverage", "steps", "line", "objective") if k in whole}
    if about["file"] not in measures:  # whose tables have no curves
        about["curve"] = {k: v for k, v in whole["curve"].items() if k != "validation"}
    return {**about, "last": last}


def shorten(raw: Path, place: Path) -> None:
    """One short line a run, sorted; a new one takes the place of an old one."""
    old = place.read_text().splitlines() if place.is_file() else []
    lines = {same(x): x for x in map(json.loads, old)}
    for text in raw.read_text().splitlines():
        whole = json.loads(text)
        if "failed" not in whole:
            line = short(whole)
            lines[same(line)] = line
    found = sorted(
        lines.values(),
        key=lambda x: json.dumps([x["file"], x.get("condition"), x.get("label"), x["seed"]]),
    )
    place.write_text("".join(json.dumps(x) + "\n" for x in found))
