"""Comparison files: what they become, and what is said of a wrong one."""

import pytest
from comparisons import TINY, tiny

from unalike.compare.specification.spec import Comparison, load, loads
from unalike.compare.specification.variants import METHOD_KEYS, PARTITION_KEYS
from unalike.errors import ConfigError
from unalike.federation.partition import PARTITIONERS


def made(compare: str, top: str = "") -> Comparison:
    return loads(f"{top}\n[compare]\n{compare}", "file")


def message(compare: str, top: str = "") -> str:
    with pytest.raises(ConfigError) as error:
        made(compare, top)
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith((".", "?"))
    return text


def test_every_combination_is_a_cell_of_its_own():
    found = made(
        """
        methods = ["fedavg", "fedprox"]
        partitions = ["iid", { name = "dirichlet", alpha = 0.1 }, { name = "shards" }]
        seeds = 4
        """
    )
    assert len(found.cells) == 2 * 3 * 4
    assert len({c.id for c in found.cells}) == 24
    assert found.labels == ["fedavg", "fedprox"]
    assert found.conditions == ["iid", "dirichlet", "shards"]
    assert found.baseline == "fedavg"
    cell = found.cells[1]
    assert (cell.id, cell.folder) == ("fedprox--iid--seed0", "cells/fedprox--iid--seed0")
    assert (cell.config.method.name, cell.config.partition.name) == ("fedprox", "iid")


def test_seeds_come_first_so_that_a_part_is_balanced():
    found = made('methods = ["fedavg", "fedprox"]\nseeds = [7, 3]')
    assert [(c.seed, c.label) for c in found.cells] == [
        (7, "fedavg"),
        (7, "fedprox"),
        (3, "fedavg"),
        (3, "fedprox"),
    ]
    assert [c.config.seed for c in found.cells] == [7, 7, 3, 3]


def test_a_number_of_seeds_counts_from_the_files_seed():
    assert [c.seed for c in made('methods = ["fedavg"]\nseeds = 3', "seed = 5").cells] == [5, 6, 7]


def test_cells_use_one_thread_unless_told_otherwise():
    assert made('methods = ["fedavg"]').cells[0].config.engine.workers == 1
    wide = made('methods = ["fedavg"]', "[engine]\nworkers = 4")
    assert wide.cells[0].config.engine.workers == 4


def test_labels_name_what_differs():
    found = made(
        """
        methods = [
          { name = "fedprox", mu = 0.1 }, { name = "fedprox", mu = 1.0, patience = 5 },
          { name = "fedprox", mu = 0.1, patience = 5, label = "own" },
          { name = "fedavg", plus = ["fedadam"] },
          { name = "fedavg", topology = "ring" },
        ]
        partitions = [
          { name = "dirichlet", alpha = 0.1, clients = 6 },
          { name = "dirichlet", alpha = 1.0, clients = 6 },
        ]
        """
    )
    assert found.labels == [
        "fedprox mu=0.1",
        "fedprox mu=1 patience=5",
        "own",
        "fedavg+fedadam",
        "fedavg",
    ]
    assert found.conditions == ["dirichlet alpha=0.1", "dirichlet alpha=1"]
    assert [c.method for c in found.cells[:5]] == [
        "fedprox",
        "fedprox",
        "fedprox",
        "fedavg+fedadam",
        "fedavg",
    ]
    assert found.cells[4].config.topology.name == "ring"


def test_a_method_may_change_other_settings_and_keep_the_files_company():
    found = made(
        """
        methods = [
          "fedavg",
          { name = "fedprox", plus = "fedadam", set = { rounds = 9, local.epochs = 2.0 } },
          { name = "scaffold", set = { "local.lr" = 0.5 } },
        ]
        """,
        'rounds = 4\nplus = ["fedep"]',
    )
    first, second, third = (c.config for c in found.cells[:3])
    assert [n.name for n in first.plus] == ["fedep"]
    assert [n.name for n in second.plus] == ["fedep", "fedadam"]
    assert (first.rounds, second.rounds, third.rounds) == (4, 9, 4)
    assert (second.local.epochs, third.local.lr) == (2.0, 0.5)


def test_a_partition_may_bring_its_own_data_and_model():
    found = made(
        """
        methods = ["fedavg"]
        partitions = [
          { name = "iid", label = "digits" },
          { name = "iid", data = "breast_cancer", model = "logistic", label = "t", set.rounds = 2 },
        ]
        """
    )
    second = found.cells[1].config
    assert (second.data.name, second.model.name, second.rounds) == ("breast_cancer", "logistic", 2)
    assert found.cells[0].config.data.name == "digits"


def test_an_entry_without_a_name_is_the_files_own_partition():
    found = made(
        'methods = ["fedavg"]\npartitions = [{ alpha = 0.1 }, { alpha = 1.0 }]',
        '[partition]\nname = "dirichlet"\nclients = 6',
    )
    assert [c.config.partition.settings["clients"] for c in found.cells[:2]] == [6, 6]


def test_a_sweep_makes_conditions():
    found = made('methods = ["fedavg", "fedprox"]\nsweep = { "local.lr" = [0.1, 0.2] }\nseeds = 1')
    assert found.conditions == ["dirichlet, local.lr=0.1", "dirichlet, local.lr=0.2"]
    assert [c.config.local.lr for c in found.cells] == [0.1, 0.1, 0.2, 0.2]
    assert found.cells[0].sweep == {"local.lr": 0.1}
    assert found.cells[0].partition == "dirichlet"


def test_a_sweep_of_a_methods_setting_makes_variants_of_that_method():
    found = made('methods = ["fedavg", "fedprox"]\nseeds = 1\nsweep.method.mu = [0.1, 1.0]')
    assert found.labels == ["fedavg", "fedprox mu=0.1", "fedprox mu=1"]
    assert [c.config.method.settings.get("mu") for c in found.cells] == [None, 0.1, 1.0]
    assert [c.sweep for c in found.cells] == [{}, {"method.mu": 0.1}, {"method.mu": 1.0}]


def test_two_sweeps_are_crossed():
    found = made('methods = ["fedavg"]\nseeds = 1\nsweep = { rounds = [1, 2], local.lr = [1.0] }')
    assert found.conditions == [
        "dirichlet, rounds=1, local.lr=1",
        "dirichlet, rounds=2, local.lr=1",
    ]


def test_the_baseline_is_a_label_or_a_name():
    text = 'methods = ["fedavg", { name = "fedprox", label = "FedProx" }]\nbaseline = '
    assert made(text + '"FedProx"').baseline == "FedProx"
    assert made(text + '"fedprox"').baseline == "FedProx"


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ('"bytes"', "bytes", None),
        ('{ bytes = "1.5 MB" }', "bytes", 1_500_000.0),
        ("{ bytes = 2000 }", "bytes", 2000.0),
        ("{ samples = 500, longest = 3 }", "samples", 500.0),
    ],
)
def test_budgets(text, kind, amount):
    found = made(f'methods = ["fedavg"]\nbudget = {text}').budget
    assert (found.kind, found.amount) == (kind, amount)


def test_a_budget_of_rounds_sets_the_rounds():
    found = made('methods = ["fedavg"]\nbudget = { rounds = 7 }', "rounds = 3")
    assert found.cells[0].config.rounds == 7


SCALES = """
rounds = 3
[compare]
methods = ["fedavg"]
seeds = 2
[scale.small]
[scale.paper]
rounds = 500
compare.seeds = [2, 4, 6]
"""


def test_scales_are_laid_over_the_file():
    small, paper = loads(SCALES, "x"), loads(SCALES, "x", "paper")
    assert (len(small.cells), small.cells[0].config.rounds, small.source["scale"]) == (
        2,
        3,
        "small",
    )
    assert [c.seed for c in paper.cells] == [2, 4, 6]
    assert paper.cells[0].config.rounds == 500


def test_scales_that_are_not_there():
    with pytest.raises(ConfigError, match="unknown scale 'papers': did you mean 'paper'"):
        loads(SCALES, "x", "papers")
    text = f'{TINY}\n[compare]\nmethods = ["fedavg"]'
    with pytest.raises(ConfigError, match="the file has none, drop --scale"):
        loads(text, "x", "paper")


def test_overrides_reach_the_base_and_the_comparison():
    found = loads(
        f'{TINY}\n[compare]\nmethods = ["fedavg"]',
        "x",
        overrides=["rounds=2", "compare.seeds=1", 'compare.methods=["fedprox","scaffold"]'],
    )
    assert [c.label for c in found.cells] == ["fedprox", "scaffold"]
    assert found.cells[0].config.rounds == 2


@pytest.mark.parametrize(
    ("compare", "part"),
    [
        ("", "'compare.methods' is required"),
        ("methods = []", "'compare.methods' must be"),
        ('methods = "fedavg"', "'compare.methods' must be"),
        ("methods = [3]", "'compare.methods[0]' must be a name or a table with a name, got 3"),
        ("methods = [{ mu = 1.0 }]", "'compare.methods[0]' needs a name: one of"),
        ('methods = ["fedavgg"]', "did you mean 'fedavg'"),
        ('methods = [{ name = "fedprox", nu = 1.0 }]', "method 'fedprox' on 'dirichlet': unknown"),
        ('methods = ["fedavg", "fedavg"]', "two entries called 'fedavg'; give one a label"),
        ('methods = [{ name = "fedavg", label = "" }]', "'compare.methods[0].label' must be"),
        ('methods = [{ name = "fedavg", plus = 3 }]', "'compare.methods[0].plus' must be a list"),
        ('methods = [{ name = "fedavg", topology = 3 }]', "'compare.methods[0].topology' must be"),
        ('methods = [{ name = "fedavg", set = 3 }]', "'compare.methods[0].set' must be a table"),
        (
            'methods = [{ name = "fedavg", set = { seed = 3 } }]',
            "'compare.methods[0].set' cannot change 'seed'",
        ),
        ('methods = ["fedavg"]\npartitions = ["irid"]', "unknown partition 'irid'"),
        ('methods = ["fedavg"]\npartitions = [2]', "'compare.partitions[0]' must be a name"),
        ('methods = ["fedavg"]\nseeds = 0', "'compare.seeds' must be a number of seeds"),
        ('methods = ["fedavg"]\nseeds = [1, 1]', "'compare.seeds' lists 1 twice"),
        ('methods = ["fedavg"]\nseeds = "x"', "'compare.seeds' must be a number of seeds"),
        ('methods = ["fedavg"]\nseeds = [-1]', "'compare.seeds' must be a number of seeds"),
        ('methods = ["fedavg"]\nbaseline = "fedporx"', "unknown compare.baseline 'fedporx'"),
        ('methods = ["fedavg"]\nbudget = "byte"', "unknown compare.budget 'byte': did you mean"),
        ('methods = ["fedavg"]\nbudget = 3', "'compare.budget' must be one of rounds, samples"),
        ('methods = ["fedavg"]\nbudget = {}', "'compare.budget' must give one of"),
        (
            'methods = ["fedavg"]\nbudget = { bytes = 1, samples = 2 }',
            "'compare.budget' must give one of rounds, samples, bytes, got 2",
        ),
        (
            'methods = ["fedavg"]\nbudget = { bytes = "3 XB" }',
            "'compare.budget.bytes' must be a positive number such as 1000000 or '1 MB'",
        ),
        ('methods = ["fedavg"]\nbudget = { samples = -1 }', "'compare.budget.samples' must be a"),
        ('methods = ["fedavg"]\nbudget = { rounds = 1.5 }', "'compare.budget.rounds' must be a"),
        (
            'methods = ["fedavg"]\nbudget = { bytes = 5, longest = 0 }',
            "'compare.budget.longest' must be a whole number",
        ),
        ('methods = ["fedavg"]\nmetric = "acuracy"', "did you mean 'accuracy'"),
        ('methods = ["fedavg"]\nsection = "locl"', "'compare.section' must be"),
        ('methods = ["fedavg"]\nsection = "new"', "split.new_clients is 0; raise it"),
        ('methods = ["fedavg"]\nmethod = 3', "unknown compare setting 'method'"),
        ('methods = ["fedavg"]\nsweep = { "local.lr" = 0.1 }', "'compare.sweep.local.lr' must be"),
        ('methods = ["fedavg"]\nsweep = { "local.lr" = [] }', "'compare.sweep.local.lr' must be"),
        ('methods = ["fedavg"]\nsweep = { "local.lr" = [1.0, 1.0] }', "lists a value twice"),
        ('methods = ["fedavg"]\nsweep = { seed = [1] }', "cannot vary 'seed'"),
        ('methods = ["fedavg"]\nsweep = { run.folder = ["x"] }', "cannot vary 'run.folder'"),
        ('methods = ["fedavg"]\nsweep = { "local.lrr" = [0.1] }', "local.lr"),
        ('methods = ["fedavg"]\nsweep = { "method.mu" = [0.1] }', "no compared method has a"),
        (
            'methods = [{ name = "fedavg", set = { local.lr = 1.0 } }]\nsweep.local.lr = [0.1]',
            "'compare.sweep' varies 'local.lr', which method 'fedavg' sets itself",
        ),
    ],
)
def test_mistakes_are_explained_in_one_sentence(compare, part):
    assert part in message(compare)


def test_mistakes_outside_the_section():
    assert "split.validation is 0" in message('methods = ["fedavg"]', "[split]\nvalidation = 0.0")
    assert "unknown setting 'roundz'" in message('methods = ["fedavg"]', "roundz = 3")
    with pytest.raises(ConfigError, match=r"no \[compare\] section"):
        loads("rounds = 3", "x")
    with pytest.raises(ConfigError, match=r"written \[compare\]"):
        loads("compare = 3", "x")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        loads("rounds = ", "x")
    with pytest.raises(ConfigError, match=r"written \[scale.small\]"):
        loads('scale = 3\n[compare]\nmethods = ["fedavg"]', "x")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"a folder without compare.json"):
        load(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="TOML in UTF-8"):
        load(tmp_path / "bytes.toml")


def test_no_setting_of_a_method_or_partition_hides_behind_our_own_keys():
    from unalike.algorithms.table import METHODS

    for cls in METHODS.values():
        assert not set(cls.model_fields) & {*METHOD_KEYS, "name"}
    for partitioner in PARTITIONERS.values():
        assert not set(partitioner.model_fields) & {*PARTITION_KEYS, "name"}


def test_the_whole_is_plain_data():
    found = tiny('methods = ["fedavg"]\nseeds = 1\nquestion = "why?"').as_dict()
    assert set(found) >= {
        "format",
        "title",
        "question",
        "baseline",
        "budget",
        "metric",
        "section",
        "cells",
    }
    assert set(found["cells"][0]) >= {
        "id",
        "label",
        "method",
        "partition",
        "seed",
        "sweep",
        "folder",
        "config",
    }
    assert found["cells"][0]["config"]["rounds"] == 3
