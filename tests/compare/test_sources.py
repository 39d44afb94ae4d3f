"""What the presets named after a source take from it, each number with its place in the source."""

import math
from pathlib import Path

import pytest

from unalike.compare.execution.conduct import preflight
from unalike.compare.presets import names, text
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import Cell, Comparison, loads
from unalike.errors import UnalikeError

OWN = {"quickstart", "compression"}  # of no source
SUPERFED = [n for n in names() if n.startswith("superfed")]
AAGGFF = [n for n in names() if n.startswith("aaggff")]


def paper(name: str) -> Comparison:
    return loads(text(name), name, "paper")


def configs(name: str) -> list[Cell]:
    return paper(name).cells


def clients(name: str) -> set[int]:
    return {c.config.partition.settings["clients"] for c in configs(name)}


def rows_held_back(name: str) -> set[tuple[float, float]]:
    return {(c.config.split.validation, c.config.split.test) for c in configs(name)}


@pytest.mark.parametrize("name", sorted(set(names()) - OWN))
def test_what_differs_is_said_where_the_preset_is_documented(name: str) -> None:
    head = " ".join(text(name).partition("\nrounds =")[0].replace("#", " ").split())
    assert "Differs from the source: " in head


@pytest.mark.parametrize("name", sorted(set(names()) - OWN))
def test_no_source_has_validation_rows(name: str) -> None:
    """Rows for tests: its own where the data have a test set, else what the source states."""
    share = {
        "vae-disco": 0.0,  # poster, experimental setup: the data's own test set
        "fedep-pure": 0.0,  # thesis, section 6.1: none are mentioned
        "fedep-mixed": 0.0,
        "emd-samplers": 0.0,  # thesis, section 4.4: none are mentioned
        "phase-shift": 0.0,
        "phase-shift-16": 0.0,
        "phase-shift-fedaug": 0.0,
        "fedaug": 0.0,
        "lg-fedavg-mnist": 0.1429,  # as many as 10,000 of 70,000
        "lg-fedavg-late": 0.1429,
        "lg-fedavg-cifar": 0.1,
        "lg-fedavg-fair": 0.5,
        "aaggff-isic": 0.2,  # FLamby's folds come first
    }
    assert rows_held_back(name) == {(0.0, share.get(name, 0.2))}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("superfed-tiny-imagenet", "tiny_imagenet"),
        ("superfed-cifar100", "cifar100"),
        ("superfed-femnist", "femnist"),
        ("superfed-shakespeare", "shakespeare"),
        ("aaggff-celeba", "celeba"),
        ("aaggff-reddit", "reddit"),
        ("aaggff-speech", "speech_commands"),
        ("aaggff-isic", "fed_isic"),
        ("aaggff-tiny-imagenet", "tiny_imagenet"),
        ("fedevg-medmnist", "medmnist"),
    ],
)
def test_missing_files_are_named_before_anything_runs(
    name: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    made = paper(name)
    with pytest.raises(UnalikeError, match=rf"{data} is not (on this machine|in)") as raised:
        preflight(made.cells[:1], Budget("rounds"))
    told = str(raised.value)
    assert "\n" not in told
    assert told.endswith(".")
    assert ". " not in told


# Dissertation, table 2.2: T, E, B, K, the rate, the model.
TABLE_2_2 = {
    "superfed-mnist": (500, 10, 10, {50, 100, 500}, 0.01, {"two_nn"}),
    "superfed-cifar": (500, 10, 10, {50, 100, 500}, 0.01, {"two_cnn"}),
    "superfed-cifar100": (500, 5, 20, {100}, 0.01, {"resnet9"}),
    "superfed-tiny-imagenet": (500, 5, 20, {200}, 0.02, {"mobilenet"}),
    "superfed-femnist": (500, 10, 10, {0}, 0.01, {"vgg9"}),  # 0: all that the data come with
    "superfed-shakespeare": (500, 5, 50, {0}, 0.8, {"stacked_lstm"}),
    "superfed-label-noise": (500, 10, 10, {100}, 0.01, {"two_nn", "two_cnn"}),
    "superfed-start": (200, 10, 10, {100}, 0.01, {"two_cnn"}),  # section 4.4: T = 200
    "superfed-mu-nu": (100, 10, 10, {100}, 0.01, {"two_cnn"}),  # section 4.4: T = 100
}


@pytest.mark.parametrize("name", SUPERFED)
def test_superfed_is_table_2_2(name: str) -> None:
    rounds, epochs, batch, number, rate, models = TABLE_2_2[name]
    for c in (cell.config for cell in configs(name)):
        assert (c.rounds, c.local.epochs, c.local.batch_size) == (rounds, epochs, batch)
        assert (c.local.lr, c.local.weight_decay) == (rate, 1e-4)  # section 4.1
        assert c.local.momentum == (0.0 if c.method.name == "scaffold" else 0.9)
        assert c.participation.number == 5
        assert c.method.settings.get("mu", 0.01) in (0.0, 0.01, 0.1, 1.0)
    assert {cell.config.model.name for cell in configs(name)} == models
    assert clients(name) == number
    judging = paper(name).judging  # captions: the best among lambda in [0, 1], a marked column here
    assert (judging.section, judging.round, judging.best_on_test) == ("local", "last", True)
    assert {cell.config.evaluation.line for cell in configs(name)} == {11}
    # section 4.1: "randomly split their data", where chapter III has "in a stratified manner"
    assert not any(cell.config.split.stratified for cell in configs(name))


@pytest.mark.parametrize("name", sorted(set(SUPERFED) - {"superfed-start", "superfed-mu-nu"}))
def test_superfed_has_all_rivals_of_tables_2_3_to_2_6(name: str) -> None:
    rivals = {"FedAvg", "FedProx", "SCAFFOLD", "LG-FedAvg", "FedPer", "APFL", "pFedMe", "Ditto"}
    assert set(paper(name).labels) == rivals | {"FedRep", "SuPerFed-MM", "SuPerFed-LM"}


def test_superfeds_grids_are_those_of_section_4_4() -> None:
    starts = {c.config.method.settings.get("start") for c in configs("superfed-start")}
    assert starts == {None, 0.0, 0.2, 0.4, 0.6, 0.8}  # table 2.7
    grid = [c.config.method.settings for c in configs("superfed-mu-nu") if "nu" in c.label]
    assert {(s["mu"], s["nu"]) for s in grid} == {
        (mu, nu) for mu in (0.0, 0.01, 0.1, 1.0) for nu in (0.0, 1.0, 2.0, 5.0)
    }
    assert {s["start"] for s in grid} == {0.4}  # L = 0.4 T = 40


def test_label_noise_is_that_of_table_2_6_on_both_datasets() -> None:
    cells = configs("superfed-label-noise")
    seen = {
        (c.config.data.name, s.settings["kind"], s.settings["ratio"])
        for c in cells
        for s in c.config.shift
    }
    kinds = (("pair", 0.1), ("pair", 0.4), ("symmetric", 0.2), ("symmetric", 0.6))
    assert seen == {(data, *k) for data in ("mnist", "cifar10") for k in kinds}
    assert {c.config.partition.settings["alpha"] for c in cells} == {10.0}


@pytest.mark.parametrize("name", ["superfed-cifar100", "superfed-tiny-imagenet"])
def test_table_2_4_has_top_5_accuracy_and_three_concentrations(name: str) -> None:
    assert paper(name).judging.metric == "top5"
    assert {c.config.partition.settings["alpha"] for c in configs(name)} == {1.0, 10.0, 100.0}


def test_tiny_imagenet_is_mirrored_and_turned() -> None:
    """Released code: a turn of up to 20 degrees and a flip of half of the pictures."""
    ((turn, crop),) = {
        (s["rotation"], s["crop"])
        for s in (c.config.augment.settings for c in configs("superfed-tiny-imagenet"))
    }
    assert (turn, crop) == (20.0, 0)


# Dissertation, table 3.4 (T) and the list of section 6.1: weight decay, rate, its decay and step;
# for the plug-in the released commands.
RATES = {
    "aaggff-berka": (100, 1e-3, 1.0, 0.99, 10),
    "aaggff-mqp": (100, 1e-2, 0.3, 0.99, 15),  # 10^(-5/2) with the weights, as its head says
    "aaggff-isic": (50, 1e-2, 0.01, 0.95, 5),  # 1e-4 with the weights, as its head says
    "aaggff-celeba": (3000, 1e-4, 0.1, 0.96, 300),
    "aaggff-reddit": (300, 1e-6, 7.5, 0.95, 20),
    "aaggff-speech": (500, 0.0, 0.1, 0.999, 10),
    "aaggff-heart": (200, 0.0, 0.01, 0.999, 2),
    "aaggff-tiny-imagenet": (2000, 0.0, 0.01, 0.95, 100),
}


@pytest.mark.parametrize("name", AAGGFF)
def test_aaggff_is_table_3_4_and_section_6_1(name: str) -> None:
    rounds, decay, rate, factor, step = RATES[name]
    many = name.removeprefix("aaggff-") in ("celeba", "reddit", "speech", "tiny-imagenet")
    for c in (cell.config for cell in configs(name)):
        assert (c.rounds, c.local.epochs, c.local.batch_size) == (rounds, 1, 20)
        assert (c.local.weight_decay, c.local.lr) == (decay, rate)
        assert (c.local.decay_rate, c.local.decay_every) == (factor, step)
        assert c.local.momentum == 0
        assert c.participation.number == (5 if many else None)  # five of K, else all
    made = paper(name)
    assert {c.seed for c in made.cells} == {2, 4, 6}  # three seeds
    assert (made.judging.statistic, made.judging.round) == ("weighted_mean", "last")
    metric = {"berka": "auroc", "mqp": "auroc", "heart": "auroc", "isic": "top5", "speech": "top5"}
    metric |= {"tiny-imagenet": "top5"}
    assert made.judging.metric == metric.get(name.removeprefix("aaggff-"), "accuracy")


@pytest.mark.parametrize(
    ("name", "baselines"),
    [  # chosen from the candidates of section 6.1: AFL, q, tilt, epsilon, M
        ("aaggff-berka", (0.01, 1.0, 0.1, 1.0, 3.0)),
        ("aaggff-mqp", (0.01, 0.1, 0.1, 0.1, 2.0)),
        ("aaggff-isic", (0.01, 0.1, 0.1, 0.5, 3.0)),
        ("aaggff-celeba", (None, 0.1, 0.1, 0.5, 2.0)),
        ("aaggff-reddit", (None, 1.0, 1.0, 0.5, 2.0)),
        ("aaggff-speech", (None, 0.1, 0.1, 0.5, 3.0)),
    ],
)
def test_rivals_of_aaggff_have_the_settings_of_the_commands(name, baselines) -> None:
    keys = {"AFL": "rate", "q-FedAvg": "q", "TERM": "tilt", "FedMGDA+": "epsilon"}
    keys |= {"PropFair": "baseline"}
    mine = {c.label: c.config.method.settings for c in configs(name)}
    found = tuple(mine[label][key] if label in mine else None for label, key in keys.items())
    assert found == baselines


@pytest.mark.parametrize("name", ["fedevg-mnist", "fedevg-cifar", "fedevg-medmnist"])
def test_fedevg_is_section_4_1(name: str) -> None:
    cells = configs(name)
    pairs = {
        (c.config.partition.settings["clients"], c.config.participation.fraction) for c in cells
    }
    assert pairs == {(10, 1.0), (100, 0.1)}
    assert {c.config.partition.settings["alpha"] for c in cells} == {0.01, 1.0}
    assert {c.seed for c in cells} == {1, 2, 3}
    assert {c.config.rounds for c in cells} == {500}
    assert {c.config.model.name for c in cells} == {"resnet10"}
    data = {str(c.config.data) for c in cells}
    if name == "fedevg-medmnist":
        assert any("dermamnist_64" in d for d in data)
        assert any("organcmnist_64" in d for d in data)
    else:
        assert {c.config.data.settings["size"] for c in cells} == {32}


# EMD thesis, table 4.2: SGD with momentum 0.9, rate 0.001, batches of 16, all clients, FedAvg.
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("emd-samplers", 20),
        ("fedaug", 20),
        ("phase-shift-fedaug", 20),
        ("phase-shift", 40),
        ("phase-shift-16", 40),
    ],
)
def test_the_emd_thesis_has_its_standard_setup(name: str, number: int) -> None:
    for c in (cell.config for cell in configs(name)):
        assert (c.local.optimizer, c.local.lr, c.local.momentum) == ("sgd", 1e-3, 0.9)
        assert (c.local.batch_size, c.participation.fraction) == (16, 1.0)
        assert c.model.settings["init"] == "torch"
    assert clients(name) == {number}
    assert len({c.seed for c in configs(name)}) == 4  # "repeated four times"


@pytest.mark.parametrize(
    "name", ["emd-samplers", "fedaug", "phase-shift-fedaug", "phase-shift", "phase-shift-16"]
)
def test_what_the_emd_thesis_leaves_open_about_pictures_is_said(name: str) -> None:
    head = " ".join(text(name).partition("\nrounds =")[0].replace("#", " ").split())
    assert "Pictures are scaled to 0 to 1, which the text leaves open" in head
    assert ("phase-shift's corrections" in head) == name.startswith("phase-shift")
    assert not any(c.config.data.settings["normalise"] for c in configs(name))


@pytest.mark.parametrize(
    ("name", "base", "total"), [("phase-shift", 8, 120), ("phase-shift-16", 16, 128)]
)
def test_longer_rounds_are_those_of_table_4_5(name: str, base: int, total: int) -> None:
    """E 2n / (n + 1) for the bytes of n phases, and the nearest number of rounds."""
    by_label = {c.label: c.config for c in configs(name)}
    assert {k.split()[0] for k in by_label if "phases" in k} == {"2", "4", "5", "10", "20"}
    assert {c.rounds for k, c in by_label.items() if "as" not in k} == {total // base}
    for n in (2, 4, 5, 10, 20):
        longer = by_label[f"FedAvg as {n}"]
        assert longer.local.epochs == pytest.approx(base * 2 * n / (n + 1), abs=1e-3)
        assert longer.rounds == math.floor(total / longer.local.epochs + 0.5)


def test_fedaug_has_the_rounds_of_the_captions_of_figures_5_2_to_5_4() -> None:
    found = {(c.config.data.name, c.config.rounds) for c in configs("fedaug")}
    assert found == {("mnist", 8), ("fashion_mnist", 10), ("cifar10", 40)}
    assert {c.config.local.epochs for c in configs("fedaug")} == {4.0}


def test_lg_fedavgs_rounds_are_those_of_its_first_table() -> None:
    """FedAvg 725 and 1850; LG-FedAvg 400 + 50 and 1200 + 60; 10 runs."""
    for name, fedavg, start, more in (("mnist", 725, 400, 50), ("cifar", 1850, 1200, 60)):
        made = {c.label: c.config for c in configs(f"lg-fedavg-{name}")}
        assert made["FedAvg"].rounds == fedavg
        lg = [c for c in made.values() if c.method.settings.get("warm_start")]
        assert {(c.method.settings["warm_start"], c.rounds) for c in lg} == {(start, start + more)}
        assert made["local only"].rounds == (1000 if name == "mnist" else 2000)
        assert len({c.seed for c in configs(f"lg-fedavg-{name}")}) == 10


def test_the_vae_has_the_posters_setup() -> None:
    """25 rounds, batches of 64, 10 local epochs, 10 and 6 clients, both datasets."""
    for c in (cell.config for cell in configs("vae-disco")):
        assert (c.rounds, c.local.batch_size, c.local.epochs) == (25, 64, 10)
    assert {c.config.data.name for c in configs("vae-disco")} == {"mnist", "fashion_mnist"}
    assert clients("vae-disco") == {10, 6}


def test_fedep_has_the_concentrations_of_chapter_6() -> None:
    pure = {
        (c.config.data.name, c.config.partition.settings["alpha"]) for c in configs("fedep-pure")
    }
    data = ("mnist", "fashion_mnist", "cifar10")
    assert pure == {(d, a) for d in data for a in (20.0, 5.0, 1.0, 0.5, 0.1)}
    mixed = {
        (d, *c.config.partition.settings["sizes"], *c.config.partition.settings["alphas"])
        for c in configs("fedep-mixed")
        for d in [c.config.data.name]
    }
    splits = ((2, 8), (5, 5), (8, 2))
    assert mixed == {(d, *s, 50.0, a) for d in data for s in splits for a in (5.0, 1.0, 0.5)}
    assert clients("fedep-pure") == clients("fedep-mixed") == {10}
