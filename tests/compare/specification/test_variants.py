"""Labels, the folders they become, and settings that two places give."""

import pytest

from unalike.compare.specification.spec import Comparison, loads
from unalike.compare.specification.variants import LONGEST
from unalike.errors import ConfigError


def made(compare: str, top: str = "") -> Comparison:
    return loads(f"{top}\n[compare]\nseeds = 1\n{compare}", "file")


def refused(compare: str, top: str = "") -> str:
    with pytest.raises(ConfigError) as error:
        made(compare, top)
    assert "\n" not in str(error.value)
    return str(error.value)


def ids(compare: str) -> list[str]:
    return [c.id for c in made(compare).cells]


def labelled(*labels: str) -> str:
    entries = ", ".join(f'{{ name = "fedavg", label = "{label}" }}' for label in labels)
    return f"methods = [{entries}]"


@pytest.mark.parametrize(
    "sweep",
    [
        '"data.path" = ["x/a.csv", "x-a.csv"]',
        '"local.lr" = [0.12345671, 0.12345672]',
        '"local.lr" = [0.1, 0.1000001]',
        '"data.path" = ["DATA", "data"]',
    ],
)
def test_every_swept_value_has_a_folder_of_its_own(sweep):
    found = made(
        f'methods = ["fedavg"]\nsweep = {{ {sweep} }}', '[data]\nname = "files"\npath = "x"'
    )
    assert len({c.id for c in found.cells}) == len({c.condition for c in found.cells}) == 2


def test_swept_settings_of_a_method_that_differ_in_the_last_digit():
    found = made('methods = ["fedprox"]\nsweep.method.mu = [0.12345671, 0.12345672, 0.1]')
    assert found.labels == ["fedprox mu=0.12345671", "fedprox mu=0.12345672", "fedprox mu=0.1"]
    assert len({c.id for c in found.cells}) == 3


def test_values_that_are_written_alike_are_refused():
    text = 'methods = ["fedavg"]\nsweep = { "local.lr" = [nan, nan] }'
    assert "makes two conditions called 'dirichlet, local.lr=nan'" in refused(text)


@pytest.mark.parametrize(
    "labels",
    [
        ("方法一", "方法二"),
        ("α", "β"),
        ("A B", "A-B"),
        ("A B", "A-B", "a_b", "a b"),
        ("!", "?"),
        ("caf\u00e9", "cafe\u0301"),
        ("x" * 300, "x" * 301),
    ],
)
def test_any_labels_can_be_told_apart(labels):
    assert len(set(ids(labelled(*labels)))) == len(labels)


def test_letters_of_any_script_stay_readable():
    assert ids(labelled("方法一", "FedProx μ=0.1")) == [
        "方法一--dirichlet--seed0",
        "fedprox-μ=0.1--dirichlet--seed0",
    ]


def test_a_method_that_is_appended_renames_no_other():
    before = ids(labelled("A B", "A-B"))
    assert ids(labelled("A B", "A-B", "a b", "C"))[:2] == before
    assert ids(labelled("A B", "C", "A-B"))[2] == before[1]


@pytest.mark.parametrize("letter", ["x", "é", "方"])
def test_the_name_of_a_folder_fits_a_file_system(letter):
    long = letter * 300
    text = f'{labelled(long)}\npartitions = [{{ name = "iid", label = "{long}" }}]'
    cell = loads(f"[compare]\nseeds = [{2**63 - 1}]\n{text}", "file").cells[0]
    assert len(f".{cell.id}.txt.tmp".encode()) < 255
    assert cell.id.count(letter) >= 2 * 20
    assert len(cell.id.split("--")[0].encode()) <= LONGEST


@pytest.mark.parametrize("key", ["partition.alpha", "data.name", "split.test", "shift"])
def test_a_method_cannot_have_data_of_its_own(key):
    said = refused(f'methods = ["fedavg", {{ name = "fedprox", set = {{ "{key}" = 0.5 }} }}]')
    assert f"'compare.methods[1].set' cannot change '{key}'" in said
    assert said.endswith("list it under compare.partitions.")


def test_a_partition_may_have_data_of_its_own():
    found = made(
        """
        methods = ["fedavg"]
        partitions = [
          { label = "a", set = { "split.test" = 0.3, "partition.alpha" = 0.1 } },
          { label = "b", set = { partition = "iid" } },
        ]
        """,
        "[partition]\nclients = 5",
    )
    first, second = (c.config for c in found.cells)
    assert (first.split.test, first.partition.settings["alpha"]) == (0.3, 0.1)
    assert (second.partition.name, second.partition.settings["clients"]) == ("iid", 5)


STRONG = '{ alpha = 0.1, label = "strong" }'


@pytest.mark.parametrize(
    ("compare", "part"),
    [
        (
            f'methods = ["fedavg"]\npartitions = [{STRONG}]\nsweep."partition.alpha" = [0.5]',
            "'compare.sweep' varies 'partition.alpha', which partition 'strong' sets itself",
        ),
        (
            'methods = ["fedavg"]\npartitions = [{ name = "iid", data = "wine" }]\n'
            'sweep.data = ["digits", "wine"]',
            "'compare.sweep' varies 'data', which partition 'iid' sets itself",
        ),
        (
            'methods = [{ name = "fedprox", mu = 0.5 }]\nsweep."method.mu" = [0.1]',
            "'compare.sweep' varies 'method.mu', which method 'fedprox' sets itself",
        ),
        (
            'methods = ["fedavg", { name = "fedprox", set.rounds = 50 }]\nbudget.rounds = 5',
            "'compare.budget' gives every method 5 rounds, but method 'fedprox' sets its own",
        ),
        (
            'methods = ["fedavg"]\npartitions = [{ name = "iid", set.rounds = 9 }]\n'
            "budget.rounds = 5",
            "gives every method 5 rounds, but partition 'iid' sets its own",
        ),
        (
            'methods = ["fedavg"]\nsweep.rounds = [1, 2]\nbudget.rounds = 5',
            "gives every method 5 rounds, but 'compare.sweep' varies them",
        ),
        (
            'methods = ["fedavg", { name = "scaffold", set."local.lr" = 0.5 }]\n'
            'partitions = ["iid", { name = "iid", label = "slow", set."local.lr" = 0.01 }]',
            "method 'scaffold' and partition 'slow' both set 'local.lr'; drop one of them.",
        ),
        (
            'methods = [{ name = "fedavg", topology = "ring" }]\n'
            'partitions = [{ name = "iid", set."topology.servers" = 3 }]',
            "method 'fedavg' and partition 'iid' both set 'topology.servers'; drop one of them.",
        ),
        (
            'methods = [{ name = "fedavg", set.model.hidden = [8] }]\n'
            'partitions = [{ name = "iid", model = { name = "mlp", hidden = [4] } }]',
            "method 'fedavg' and partition 'iid' both set 'model.hidden'; drop one of them.",
        ),
    ],
)
def test_a_setting_is_given_in_one_place(compare, part):
    assert part in refused(compare)


def test_a_method_may_tune_what_a_partition_names():
    found = made(
        'methods = ["fedavg", { name = "scaffold", set."model.hidden" = [8], set.rounds = 3 }]\n'
        'partitions = [{ name = "iid", model = "mlp", set."local.lr" = 0.5 }]'
    )
    assert [c.config.model.settings["hidden"][-1:] for c in found.cells][1] == [8]
    assert [c.config.local.lr for c in found.cells] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ('"method.mu" = 0.1', "method.mu"),
        ('method = "fedprox"', "method"),
        ('plus = ["fedadam"]', "plus"),
    ],
)
def test_a_partition_leaves_the_methods_as_they_are(given, key):
    said = refused(
        f'methods = ["fedavg", "fedprox"]\npartitions = [{{ name = "iid", set = {{ {given} }} }}]'
    )
    assert said == (
        f"'compare.partitions[0].set' cannot change '{key}', which is the method's own; list it "
        "under compare.methods."
    )


def test_a_topology_may_be_a_condition():
    found = made(
        'methods = ["fedavg"]\n'
        'partitions = ["iid", { name = "iid", label = "ring", set.topology = { name = "ring" } }]'
    )
    assert [c.config.topology.name for c in found.cells] == ["star", "ring"]


def test_a_sweep_may_vary_what_only_the_file_sets():
    found = made(
        'methods = ["fedavg"]\npartitions = [{ clients = 5, label = "five" }]\n'
        'sweep."partition.alpha" = [0.1, 1.0]',
        '[partition]\nname = "dirichlet"\nalpha = 0.5',
    )
    assert [c.config.partition.settings["alpha"] for c in found.cells] == [0.1, 1.0]


def test_a_method_may_have_its_own_rounds_without_a_stated_budget():
    found = made('methods = ["fedavg", { name = "fedprox", set.rounds = 9 }]', "rounds = 3")
    assert [c.config.rounds for c in found.cells] == [3, 9]


@pytest.mark.parametrize("preset", [True, False])
def test_a_preset_is_known_from_a_file_of_its_name(preset):
    found = loads('[compare]\nmethods = ["fedavg"]', "quickstart", preset=preset)
    assert found.source["preset"] is preset
