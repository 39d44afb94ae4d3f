"""Every preset, at both scales: its file, its cells, and that each kind of cell can be built."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from real_data import FOLDER, needs_data, skip_absent

from unalike.compare.execution.conduct import preflight
from unalike.compare.presets import about, names, text
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import Comparison, load, loads
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.federation.datasets import DATASETS

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "benchmarks" / "evidence"
BOTH = [(name, scale) for name in names() for scale in ("small", "paper")]
SHAPES = {  # what a published dataset looks like: shape, classes, natural clients, examples
    "mnist": ((1, 28, 28), 10, 0, 12_000),
    "fashion_mnist": ((1, 28, 28), 10, 0, 12_000),
    "cifar10": ((3, 32, 32), 10, 0, 12_000),
    "berka": ((15,), 2, 7, 621),
    "heart": ((13,), 2, 4, 920),
    "adult": ((90,), 2, 0, 12_000),
    "cifar100": ((3, 32, 32), 100, 0, 12_000),
    "tiny_imagenet": ((3, 64, 64), 200, 0, 20_000),
    "femnist": ((1, 28, 28), 62, 50, 7_000),
    "shakespeare": ((80,), 80, 50, 8_000),
    "celeba": ((3, 84, 84), 2, 300, 6_000),
    "fed_isic": ((3, 64, 64), 8, 6, 3_000),
    "speech_commands": ((1, 16_000), 35, 50, 7_000),
    "mqp": ((1_024,), 2, 11, 3_048),
    "reddit": ((10,), 40, 50, 4_000),
    "medmnist": ((3, 64, 64), 7, 0, 7_000),
}


@cache
def preset(name: str, scale: str) -> Comparison:
    return loads(text(name), name, scale)


def stand_in(name: str):
    """A dataset of the same shape in which nothing can be learned."""
    shape, classes, groups, n = SHAPES[name]

    def load(self) -> Examples:
        side = getattr(self, "size", 0)
        size = (shape[0], side, side) if side else shape
        x, y = torch.zeros(1).expand(n, *size), torch.arange(n) % classes
        kind = "binary" if classes == 2 else "multiclass"
        if name in ("reddit", "shakespeare"):
            x, kind = x.long(), "characters"
        if name == "reddit":
            y = y[:, None].expand(n, 10)
        natural = np.arange(n) // classes % groups if groups else None
        titles = tuple(f"client {i}" for i in range(groups))
        test = None if groups or name == "adult" else (x[:100], y[:100])
        return Examples(
            x,
            y,
            classes,
            kind,
            natural,
            titles,
            *(test or (None, None)),
            tuple(f"class {i}" for i in range(classes)),
            protected=tuple(getattr(self, "protected", ())),
        )

    return load


def test_there_is_one_for_every_experiment():
    assert names()[0] == "quickstart"
    assert set(names()) >= {
        "vae-disco",
        "fedep-pure",
        "fedep-mixed",
        "lg-fedavg-mnist",
        "lg-fedavg-cifar",
        "lg-fedavg-late",
        "lg-fedavg-fair",
        "emd-samplers",
        "phase-shift",
        "fedaug",
        "phase-shift-fedaug",
        "superfed-mnist",
        "superfed-cifar",
        "superfed-start",
        "superfed-mu-nu",
        "superfed-label-noise",
        "aaggff-berka",
        "aaggff-heart",
        "aaggff-celeba",
        "aaggff-reddit",
        "aaggff-speech",
        "aaggff-isic",
        "aaggff-mqp",
        "aaggff-tiny-imagenet",
        "superfed-cifar100",
        "superfed-femnist",
        "superfed-shakespeare",
        "superfed-tiny-imagenet",
        "phase-shift-16",
        "fedevg-mnist",
        "fedevg-cifar",
        "fedevg-medmnist",
        "compression",
    }


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_presets_are_valid(name, scale):
    made = preset(name, scale)
    title, question, scales = about(name)
    assert title
    assert question.endswith("?")
    assert scales == ["small", "paper"]
    assert len({c.seed for c in made.cells}) >= 3  # one seed says nothing about chance
    assert made.source["scale"] == scale
    assert made.baseline == "FedAvg"


@pytest.mark.parametrize("name", names())
def test_small_is_smaller_than_the_paper(name):
    def work(made: Comparison) -> float:
        return sum(c.config.rounds * c.config.local.epochs for c in made.cells)

    assert work(preset(name, "small")) < work(preset(name, "paper"))


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_every_kind_of_cell_can_be_built(name, scale, monkeypatch):
    """On data of the published shape, so that the methods meet the models they are to train."""
    for data in SHAPES:
        monkeypatch.setattr(DATASETS[data], "load", stand_in(data))
    made = preset(name, scale)
    first = [c for c in made.cells if c.seed == made.cells[0].seed]
    conditions = made.conditions[:: max(1, len(made.conditions) // 3)]
    preflight([c for c in first if c.condition in conditions], Budget("rounds"))


def test_quickstart_needs_no_data_and_shows_every_family():
    made = preset("quickstart", "small")
    assert {c.config.data.name for c in made.cells} == {"digits"}
    assert {c.method for c in made.cells} >= {
        "fedavg",
        "fedprox",
        "scaffold",
        "fedavgm",
        "fedep",
        "lg_fedavg",
        "fedaug",
        "phase_shift",
    }
    assert "ring" in {c.config.topology.name for c in made.cells}


def test_the_papers_settings():
    """A few numbers that must not drift, from the published set-ups."""
    berka = preset("aaggff-berka", "paper").cells[0].config
    assert (berka.rounds, berka.local.lr, berka.local.batch_size) == (100, 1.0, 20)
    assert (berka.local.weight_decay, berka.local.decay_rate) == (1e-3, 0.99)
    superfed = preset("superfed-mnist", "paper").cells[0].config
    assert (superfed.rounds, superfed.participation.number) == (500, 5)
    assert (superfed.local.epochs, superfed.local.momentum) == (10.0, 0.9)
    phases = preset("phase-shift", "paper")
    assert phases.cells[0].config.partition.settings["clients"] == 40
    by_label = {c.label: c.config for c in phases.cells}
    assert by_label["FedAvg as 4"].local.epochs == 12.8  # 8 x 2n/(n+1)
    assert by_label["FedAvg as 4"].rounds == 9
    both = {c.label: c.config for c in preset("phase-shift-fedaug", "paper").cells}
    assert both["2P"].rounds * both["2P"].local.epochs == 108
    assert both["FedNova"].rounds * both["FedNova"].local.epochs == 108
    vae = preset("vae-disco", "paper")
    assert vae.cells[0].config.model.settings["beta"] == 10.0
    assert {c.config.method.settings.get("a") for c in vae.cells} == {None, 0.1, 0.5, 0.9}


@pytest.mark.parametrize(
    ("name", "numbers", "starts"),
    [
        ("superfed-cifar100", (500, 5.0, 20, 0.01, 5), {0.4, 0.6}),
        ("superfed-tiny-imagenet", (500, 5.0, 20, 0.02, 5), {0.45, 0.5}),
        ("superfed-femnist", (500, 10.0, 10, 0.01, 5), {0.25, 0.45}),
        ("superfed-shakespeare", (500, 5.0, 50, 0.8, 5), {0.45, 0.35}),
    ],
)
def test_superfeds_other_tables(name, numbers, starts):
    """T, E, B, the rate and the clients of a round, and L of the released commands."""
    made = preset(name, "paper")
    for c in (c.config for c in made.cells):
        local = c.local
        found = (c.rounds, local.epochs, local.batch_size, local.lr, c.participation.number)
        assert found == numbers
    own = [c.config.method.settings for c in made.cells if c.method.startswith("superfed")]
    assert {s["start"] for s in own} == starts
    assert {s["mu"] for s in own} == {0.01}


def test_sources_selection_and_rivals_are_theirs_at_paper_scale():
    """Who reports what is best on test rows gets that column, and only beside the last round."""
    marked = {n for n in names() if preset(n, "paper").judging.best_on_test}
    superfed = {n for n in names() if n.startswith("superfed")}
    assert marked == {"lg-fedavg-mnist", "lg-fedavg-cifar", "fedaug", *superfed}
    assert all(preset(n, "paper").judging.section != "oracle" for n in names())
    assert {preset(n, "paper").judging.round for n in marked} == {"last"}
    for name in (n for n in names() if n.startswith("fedevg")):
        assert {"FedCVAE", "FedCGAN"} <= set(preset(name, "paper").labels)


@pytest.mark.parametrize("name", [n for n in names() if n.startswith("superfed")])
def test_what_is_not_as_in_the_text_is_said(name):
    """Its rate falls by 1 % a round in the text and by 0.1 or 0.5 % in the released code."""
    rates = {c.config.local.decay_rate for c in preset(name, "paper").cells}
    assert rates == {0.995 if name in ("superfed-femnist", "superfed-shakespeare") else 0.999}
    assert "1 %" in " ".join(text(name).partition("rounds =")[0].split())


def test_samplers_reach_the_emd_they_are_named_after():
    """ll: 2f(1 - t/M), q: 2q - 2/M, ll_q: 2q - 2t/M with ten classes."""
    for cell in preset("emd-samplers", "paper").cells:
        kind, p = cell.config.partition, cell.config.partition.settings
        emd = {
            "limit_label": lambda p: 2 * p["f"] * (1 - p["t"] / 10),
            "q_sampler": lambda p: 2 * p["q"] - 0.2,
            "limit_label_q": lambda p: 2 * p["q"] - p["t"] / 5,
            "emd": lambda p: p["target"],
        }
        if kind.name in emd:  # Dirichlet reaches it on average only
            target = float(cell.condition.split()[1])
            assert emd[kind.name](p) == pytest.approx(target, abs=1e-5)


@pytest.mark.parametrize("path", sorted(EVIDENCE.glob("*.toml")), ids=lambda path: path.stem)
def test_the_comparisons_behind_the_results_are_valid(path):
    """Every run of docs/results/runs.jsonl is a cell of one, and what was not run is said."""
    cells = {(c.condition, c.label, c.seed) for c in load(path).cells}
    kept = (ROOT / "docs/results/runs.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [x for x in map(json.loads, kept) if x["file"] == path.stem]
    assert {(x["condition"], x["label"], x["seed"]) for x in runs} <= cells
    told = (ROOT / "docs/results/index.md").read_text(encoding="utf-8").splitlines()
    assert runs or any("not run" in row.lower() and path.stem in row for row in told)


def test_an_unknown_preset_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown preset 'quikstart': did you mean 'quickstart'"):
        text("quikstart")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", names())
@needs_data
def test_presets_build_on_the_real_data(name, monkeypatch):
    monkeypatch.setenv("UNALIKE_DATA", str(FOLDER))
    made = preset(name, "small")
    skip_absent(made)
    preflight([c for c in made.cells if c.seed == made.cells[0].seed], Budget("rounds"))
