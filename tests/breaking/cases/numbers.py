"""Numbers that go out of hand: garbage, rates, clients and methods at their limits."""

import json
import math
from pathlib import Path
from typing import Any

from breaking.corpus import EITHER, REFUSED, Case
from breaking.server import Outcome

KIND = "numbers"
START = 'rounds = 6\nmodel = "logistic"\nrun.folder = "out"\n'
PARTED = 'partition = {name = "dirichlet", clients = 6, alpha = 1.0}\n'
LOST = 1000 * math.log(10)  # a thousand times the loss of guessing among ten digits


def sane(place: Path, outcome: Outcome) -> None:
    """What finished has a model, or says that it has lost it."""
    if outcome.code != 0:
        return
    from safetensors.torch import load_file

    summary = json.loads((place / "out" / "summary.json").read_text())
    lines = (place / "out" / "rounds.jsonl").read_text().splitlines()
    losses = [_loss(json.loads(line)) for line in lines]
    said = "diverged" in outcome.out + outcome.err and "diverged" in json.dumps(summary)
    assert said or all(loss < LOST for loss in losses if loss is not None), losses
    model = place / "out" / "model.safetensors"
    largest = (
        max(float(w.double().abs().max()) for w in load_file(model).values())
        if model.exists()
        else 0
    )
    assert math.isfinite(largest)
    assert said or largest < 1e6, largest


def _loss(record: dict[str, Any]) -> float | None:
    return ((record["metrics"] or {}).get("local") or {}).get("loss", {}).get("mean")


def case(
    name: str,
    text: str,
    cause: str = "",
    want: str = EITHER,
    parted: str = PARTED,
    start: str = START,
) -> Case:
    files = {"c.toml": start + parted + text}
    return Case(KIND, name, want, ["run", "c.toml"], files, cause, None, sane)


def garbage(share: float, kind: str) -> str:
    return f'faults = {{garbage = {share}, kind = "{kind}"}}\n'


BLIND = "blind guard"
EVEN = 'partition = {name = "iid", clients = 6}\n'
ATTACKED = {  # methods that meet a majority of enormous updates
    "fedadam of 1e30": 'method = {name = "fedadam", lr = 1e30}\n',
    "fedadam of 1e-30": 'method = {name = "fedadam", lr = 1e-30}\n',
    "fedavgm": 'method = {name = "fedavgm", beta = 0.999999}\n',
    **{
        name: f'method = "{name}"\n'
        for name in (
            *("scaffold", "fednova", "afl", "fedmgda", "median", "krum", "norm_clip", "lg_fedavg"),
            *("aaggff_s", "propfair"),
        )
    },
    "qfedavg": 'method = {name = "qfedavg", q = 1e6}\n',
    "term": 'method = {name = "term", t = 1e6}\n',
}
CASES = [
    *(
        case(
            f"{share:.0%} {kind}",
            garbage(share, kind),
            BLIND if kind == "huge" and share < 1 else "",
        )
        for kind in ("nan", "huge", "noise", "zero")
        for share in (0.3, 0.6, 1.0)
    ),
    case("most send nothing", garbage(0.9, "zero")),
    case(
        "nobody sends a number, stop",
        'faults = {garbage = 1.0, kind = "nan", too_few = "stop"}\n',
        want=REFUSED,
    ),
    case("everybody drops out", "faults.drop = 1.0\n"),
    case("everybody drops out, stop", 'faults = {drop = 1.0, too_few = "stop"}\n'),
    case("more replies than clients", "faults.min_replies = 99\n"),
    *(
        case(f"a rate of {rate}", f"local.lr = {rate}\n")
        for rate in ("1e3", "1e10", "1e30", "1e38", "1e300", "1e-300")
    ),
    case(
        "a rate of 1e10, two layers",
        "local.lr = 1e10\n",
        BLIND,
        start=START.replace("logistic", "mlp"),
    ),
    case("a decay of 1e30", "local.weight_decay = 1e30\n"),
    case("hardly any friction", "local = {momentum = 0.999999, lr = 10.0}\n"),
    *(
        case(f"60% huge, {name}", text + garbage(0.6, "huge"), BLIND if name == "norm_clip" else "")
        for name, text in ATTACKED.items()
    ),
    case("fedadam of 1e30", 'method = {name = "fedadam", lr = 1e30}\n', BLIND),
    case("fedadam of 1e38", 'method = {name = "fedadam", lr = 1e38}\n', BLIND),
    case("qfedavg of 1e6", 'method = {name = "qfedavg", q = 1e6}\n'),
    case("term of 1e6", 'method = {name = "term", t = 1e6}\n'),
    case("fedprox of 1e30", 'method = {name = "fedprox", mu = 1e30}\n', BLIND),
    case("fedprox of 1e6", 'method = {name = "fedprox", mu = 1e6}\n', BLIND),
    case("all attack", 'attack = {name = "sign_flip", share = 1.0}\n'),
    case("one client", "", parted=PARTED.replace("clients = 6", "clients = 1")),
    case("a thousand clients", "", parted=EVEN.replace("clients = 6", "clients = 1000")),
    case("a class each", "", parted=PARTED.replace("1.0", "1e-6")),
    case("every label wrong", '[[shift]]\nname = "label_noise"\nshare = 1.0\n'),
    case("noise of 1e30", '[[shift]]\nname = "noise"\nscale = 1e30\n'),
    case("no test rows", "split.test = 0.0\n"),
    case("no validation rows", "split.validation = 0.0\n"),
    case("hardly ever judged", "evaluation.every = 99\n"),
    case("privacy of 1e20", 'method = {name = "dp", noise = 1e20}\n'),
    case("privacy clipped at 1e-30", 'method = {name = "dp", clip = 1e-30}\n'),
    *(
        case(
            f"one client a round, {share:.0%} huge",
            garbage(share, "huge") + "participation.number = 1\n",
            BLIND,
            parted=EVEN,
            start=START.replace("6", "12", 1),
        )
        for share in (0.1, 0.3)
    ),
    case(
        "a ring, 10% huge",
        garbage(0.1, "huge") + 'topology = "ring"\n',
        BLIND,
        parted=EVEN.replace("6", "10"),
    ),
    case("20 clients, 10% huge", garbage(0.1, "huge"), BLIND, parted=EVEN.replace("6", "20")),
    case(
        "20 clients, 30% huge, clipped",
        garbage(0.3, "huge") + 'method = "norm_clip"\n',
        BLIND,
        parted=EVEN.replace("6", "20"),
    ),
    case("hardly an explosion", "faults.explode = 1.0001\n", parted=EVEN),
]
