"""Settings as the report tells them: each where it makes a difference."""

import json

from written_runs import COMPARISON, config, write_comparison, write_run

from unalike.report.html import settings
from unalike.report.records import Reader
from unalike.run.configuration.config import tables


def compared(folder, text=COMPARISON):
    return Reader(write_comparison(folder, text, finished=4)).read()


def by_label(study):
    return {m.label: dict(m.settings) for m in settings.methods(study)}


def test_methods_are_described_with_their_settings(tmp_path):
    write_run(config(tmp_path, method={"name": "fedprox", "mu": 0.5}, plus=[{"name": "fedadam"}]))
    (method,) = settings.methods(Reader(tmp_path).read())
    assert method.label == "fedprox+fedadam"
    assert [name for name, _, _ in method.parts] == ["fedprox", "fedadam"]
    assert ("fedprox.mu", "0.5") in method.settings
    assert "arXiv 1812.06127" in method.parts[0][2]


def test_a_method_this_version_does_not_know_is_shown_by_name(tmp_path):
    folder = write_run(config(tmp_path))
    text = (folder / "config.json").read_text().replace('"fedavg"', '"of the future"')
    (folder / "config.json").write_text(text)
    (method,) = settings.methods(Reader(tmp_path).read())
    assert method.parts == [("of the future", "", "")]


def test_methods_that_have_not_begun_are_described(tmp_path):
    study = Reader(write_comparison(tmp_path, finished=0)).read()
    assert [m.label for m in settings.methods(study)] == ["FedAvg", "FedProx", "SCAFFOLD"]


def test_what_a_method_sets_is_told_with_every_method(tmp_path):
    changes = "set = { local.lr = 0.3, attack = { name = 'sign_flip', share = 0.4 } }"
    text = COMPARISON.replace(
        'label = "FedProx"', f'label = "FedProx", topology = "ring", {changes}'
    )
    study = compared(tmp_path, text)
    found = by_label(study)
    assert [found[m]["local.lr"] for m in study.methods] == ["0.05", "0.3", "0.05"]
    assert [found[m]["attack"] for m in study.methods] == ["none", "sign_flip, share = 0.4", "none"]
    assert found["FedProx"]["topology"] == "ring, neighbours = 1"
    assert not {"local.lr", "attack"} & dict(settings.shared(study)).keys()


def test_methods_without_settings_of_their_own_share_all(tmp_path):
    """Only what belongs to a method is told with it."""
    study = compared(tmp_path)
    found = by_label(study)
    for label, own in found.items():
        cls = tables()["method"][label.lower()]
        assert own.keys() == cls.model_fields.keys() - {"name"}
    assert found["FedProx"].keys() > found["FedAvg"].keys()
    assert "local.lr" in dict(settings.shared(study))


def test_a_topology_is_told_where_it_differs(tmp_path):
    other = COMPARISON.replace("alpha = 1.0", "alpha = 1.0, set = { topology = 'ring' }")
    study = compared(tmp_path / "partitions", other)
    assert [told.rpartition("; ")[2] for _, told in settings.partitions(study)] == [
        "topology = star",
        "topology = ring, neighbours = 1",
    ]
    assert dict(settings.everything(study))["topology.name"] == "star or ring"
    assert not any("topology" in own for own in by_label(study).values())
    assert "topology" not in dict(settings.shared(study))


def test_a_topology_that_all_share_is_told_once(tmp_path):
    study = compared(tmp_path / "all", f"topology = 'ring'\n{COMPARISON}")
    assert dict(settings.shared(study))["topology"] == "ring, neighbours = 1"
    assert not any("topology" in own for own in by_label(study).values())
    assert "topology" not in dict(settings.shared(compared(tmp_path / "star")))


def test_settings_that_differ_little_differ(tmp_path):
    rates = (0.1, 0.10000001, 0.03162277660168379)
    for i, lr in enumerate(rates):
        write_run(config(tmp_path / str(i), local={"lr": lr}))
    study = Reader(tmp_path).read()
    assert [name for name, _ in settings.partitions(study)] == [
        f"dirichlet lr={rate}" for rate in rates
    ]
    assert dict(settings.everything(study))["local.lr"] == " or ".join(map(str, rates))
    assert "local.lr" not in dict(settings.shared(study))


def test_rounds_that_a_budget_buys_are_left_to_the_ledger(tmp_path):
    text = COMPARISON.replace("seeds = 3", "seeds = 3\nbudget = 'bytes'")
    folder = write_comparison(tmp_path, text, finished=4)
    path = next((folder / "cells").glob("fedprox*seed0/config.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "rounds": 77}))
    assert "rounds" not in by_label(Reader(folder).read())["FedProx"]


def test_partitions_tell_their_numbers_and_what_they_change(tmp_path):
    even = '{ name = "iid", label = "even", data = "breast_cancer" }'
    text = COMPARISON.replace("partitions = [", f"partitions = [{even}, ")
    noise = 'label = "mild", shift = [{ name = "noise", level = 0.5 }]'
    text = text.replace("alpha = 1.0", f"alpha = 1.0, {noise}")
    found = dict(
        settings.partitions(compared(tmp_path, text + "sweep = { split.test = [0.2, 0.3] }"))
    )
    assert len(found) == 6
    assert found["even, split.test=0.2"] == (
        "iid, clients = 10, min_size = 1; data = breast_cancer; shift = none; split.test = 0.2"
    )
    assert found["mild, split.test=0.3"] == (
        "dirichlet, clients = 10, min_size = 1, alpha = 1; data = digits; "
        "shift = noise, level = 0.5; split.test = 0.3"
    )


def test_the_partition_of_a_run_tells_its_numbers(run_folder):
    study = Reader(run_folder).read()
    told = "dirichlet, clients = 10, min_size = 1, alpha = 0.5"
    assert settings.partitions(study) == [("dirichlet", told)]


def test_lists_of_a_partition_are_told(tmp_path):
    write_run(config(tmp_path, partition={"name": "mixed", "sizes": [2, 8]}))
    ((_, told),) = settings.partitions(Reader(tmp_path).read())
    assert told == "mixed, clients = 10, min_size = 1, sizes = [2, 8], alphas = [50, 0.5]"


def test_what_all_share_is_told_unless_it_is_a_default(tmp_path):
    text = """
    [local]
    lr = 0.3
    [faults]
    drop = 0.1
    [attack]
    name = "label_flip"
    share = 0.4
    [[shift]]
    name = "rotation"
    """
    study = compared(tmp_path, COMPARISON.replace("[compare]", text + "[compare]"))
    assert settings.shared(study) == [
        ("rounds", "6"),
        ("data", "digits"),
        ("shift", "rotation"),
        ("model", "mlp"),
        ("attack", "label_flip, share = 0.4"),
        ("local.epochs", "1"),
        ("local.batch_size", "32"),
        ("local.lr", "0.3"),
        ("faults.drop", "0.1"),
    ]


def test_settings_in_which_runs_differ_are_all_shown(tmp_path):
    write_run(config(tmp_path / "a", local={"lr": 0.1}))
    write_run(config(tmp_path / "b", local={"lr": 0.2}))
    study = Reader(tmp_path).read()
    shown = dict(settings.everything(study))
    assert shown["local.lr"] == "0.1 or 0.2"
    assert shown["rounds"] == "6"
    assert [name for name, _ in settings.partitions(study)] == [
        "dirichlet lr=0.1",
        "dirichlet lr=0.2",
    ]


def test_clipping_without_noise_is_no_privacy(tmp_path):
    folder = write_run(config(tmp_path))
    summary = json.loads((folder / "summary.json").read_text())
    summary["privacy"] = {"epsilon": None, "delta": 1e-5, "meaning": "nothing"}
    (folder / "summary.json").write_text(json.dumps(summary))
    (method,) = settings.methods(Reader(tmp_path).read())
    assert method.privacy == "none, since updates were clipped without noise"
