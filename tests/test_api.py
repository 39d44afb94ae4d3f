"""The library without files: a few names, and the same numbers as the command line."""

import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unalike
from unalike import tree
from unalike.data_file import data_table
from unalike.extend import Weighed, WeightRule, setting
from unalike.federation.data import TEST
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import federation
from unalike.run.folder.records import read_json, read_lines


def test_ten_lines():
    torch.manual_seed(0)  # a module brings its own weights
    # fmt: off
    import numpy as np
    from torch import nn

    import unalike

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 5)) + 2 * np.eye(3, 5)[y]
    clients = unalike.partitioner("dirichlet", clients=8, alpha=0.3)
    data = unalike.federate((x, y), clients)
    result = unalike.train(data, nn.Linear(5, 3), "fedprox", rounds=20, local={"lr": 0.1})
    print(result.summary["last"]["local"]["accuracy"]["mean"])
    # fmt: on
    assert result.summary["last"]["local"]["accuracy"]["mean"] > 0.8
    assert isinstance(result.model, nn.Linear)


class TestNames:
    def test_they_are_sorted_and_all_there(self):
        assert unalike.__all__ == sorted(unalike.__all__)
        assert set(unalike.__all__) <= set(dir(unalike))
        for name in unalike.__all__:
            assert getattr(unalike, name).__module__.startswith("unalike.")

    def test_each_has_one_home(self):
        assert sorted([*unalike._HOME, *unalike._PACKAGES]) == unalike.__all__

    def test_others_are_missed_as_usual(self):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            _ = unalike.nonsense

    def test_functions_explain_themselves(self):
        for name in unalike.__all__:
            assert (getattr(unalike, name).__doc__ or "").strip()


SETTINGS: dict[str, Any] = {
    "rounds": 3,
    "seed": 5,
    "method": {"name": "fedprox", "mu": 0.2},
    "plus": [{"name": "fedadam", "lr": 0.05}],
    "local": {"lr": 0.3, "epochs": 0.5},
    "participation": {"number": 3},
    "faults": {"garbage": 0.3},
    "evaluation": {"every": 2},
}


def test_the_same_as_a_run_with_a_folder(tmp_path: Path):
    parts = {
        "partition": {"name": "dirichlet", "clients": 6},
        "split": {"new_clients": 1},
        "model": {"name": "mlp", "hidden": [8]},
    }
    config = parse({**SETTINGS, **parts, "run": {"folder": str(tmp_path / "run")}})
    folder = unalike.start(config)
    seen: list[int] = []
    result = unalike.train(
        federation(config),
        {"name": "mlp", "hidden": [8]},
        watch=lambda record: seen.append(record["round"]),
        **SETTINGS,
    )
    assert result.rounds == read_lines(folder / "rounds.jsonl")
    assert result.clients == read_lines(folder / "clients.jsonl")
    assert result.summary == read_json(folder / "summary.json")
    assert seen == [1, 2, 3]


@pytest.fixture(scope="module")
def digits() -> unalike.Federation:
    clients = unalike.partitioner("dirichlet", clients=4, alpha=0.5)
    return unalike.federate(unalike.dataset("digits"), clients)


class Net(nn.Module):
    """A module that knows its head."""

    head = ("last.",)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.first(x.flatten(1)))))


def test_nobody_need_watch(digits: Any):
    assert len(unalike.train(digits, "logistic", rounds=1, watch=None).rounds) == 1


@pytest.mark.parametrize("watch", [3, "print"])
def test_a_watch_is_called(digits: Any, watch: Any):
    with pytest.raises(unalike.ConfigError, match="watch is called with the record of every round"):
        unalike.train(digits, "logistic", rounds=1, watch=watch)


class TestModels:
    def test_a_module_starts_from_its_own_weights_and_is_left_alone(self, digits: Any):
        net = Net()
        before = {k: v.clone() for k, v in net.state_dict().items()}
        still = unalike.train(digits, net, rounds=1, local={"lr": 1e-12}, seed=3)
        assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
        assert still.model is not None
        assert still.model is not net
        assert torch.allclose(still.model.first.weight, before["first.weight"], atol=1e-6)

    def test_unless_fresh_ones_are_asked_for(self, digits: Any):
        net = Net()
        fresh = unalike.train(digits, net, rounds=1, local={"lr": 1e-12}, run={"init": "drawn"})
        assert fresh.model is not None
        assert not torch.allclose(fresh.model.first.weight, net.first.weight, atol=1e-3)

    def test_weights_can_be_drawn_as_pytorch_draws_them(self, digits: Any):
        model = {"name": "mlp", "hidden": [16], "init": "torch"}
        once, again = (
            unalike.train(digits, model, rounds=1, local={"lr": 1e-12}, seed=3).model.state_dict()
            for _ in range(2)
        )
        assert all(torch.equal(once[k], v) for k, v in again.items())
        first, bias = (v for k, v in once.items() if v.shape[0] == 16)
        for found in (first, bias):  # 64 inputs, so none is beyond 1/8, and biases are not zero
            assert 0.08 < float(found.abs().max()) <= 0.125 + 1e-6
        with pytest.raises(unalike.ConfigError, match=r"model.init .* run.init"):
            unalike.train(digits, model, rounds=1, run={"init": "given"})

    def test_the_shared_model_predicts_what_was_judged(self, digits: Any):
        result = unalike.train(digits, Net(), rounds=2, local={"lr": 0.2})
        assert result.model is not None
        assert not result.model.training
        rows = digits.rows(TEST).order
        hit = result.model(digits.examples.x[rows]).argmax(1) == digits.examples.y[rows]
        judged = result.summary["last"]["global"]["accuracy"]["mean"]
        assert hit.double().mean().item() == pytest.approx(judged)

    def test_personal_models_that_are_the_servers_are_there(self, digits: Any):
        """Where every client has its own server, or is alone, one copy is enough."""
        for topology in ("ring", "star"):
            method = {"name": "apfl", "alpha": 0.0}
            data = (
                digits
                if topology == "ring"
                else unalike.federate("digits", unalike.partitioner("iid", clients=1))
            )
            found = unalike.train(data, Net(), method, rounds=1, topology=topology)
            last = data.n_clients - 1
            shared = tree.row(found._last.servers, last)
            own = found.personal(last).state_dict()
            assert all(torch.equal(own[k], v) for k, v in shared.items())

    def test_personal_models_predict_what_was_judged(self, digits: Any):
        result = unalike.train(digits, Net(), "lg_fedavg", rounds=2, local={"lr": 0.2})
        assert result.model is None
        judged = result.clients[-1]["local"]["accuracy"]
        for k in range(4):
            rows = digits.rows(TEST).of(k)
            hit = result.personal(k)(digits.examples.x[rows]).argmax(1) == digits.examples.y[rows]
            assert hit.double().mean().item() == pytest.approx(judged[k])

    def test_without_models_of_their_own_clients_use_the_shared_one(self, digits: Any):
        settings = {"name": "fedevg", "per_class": 1, "judge_epochs": 1}
        result = unalike.train(digits, "logistic", settings, rounds=1, local={"epochs": 0.1})
        assert result.personal(0) is result.model

    def test_a_module_that_cannot_be_vectorized_runs_one_client_at_a_time(self, digits: Any):
        class Stubborn(Net):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) * (
                    1.0 if float(self.last.bias.detach().sum()) < 9 else 2.0
                )

        result = unalike.train(digits, Stubborn(), rounds=1)
        assert result._made.simulation.engine == "sequential"


class TestMistakes:
    @pytest.mark.parametrize("name", ["data", "partition", "split", "shift"])
    def test_what_the_federation_settles(self, digits: Any, name: str):
        with pytest.raises(unalike.ConfigError, match=f"'{name}' is set by the federation"):
            unalike.train(digits, "mlp", **{name: {}})

    @pytest.mark.parametrize("settings", [{"run": {"folder": "x"}}, {"track": {}}])
    def test_what_only_a_folder_has(self, digits: Any, settings: dict[str, Any]):
        with pytest.raises(unalike.ConfigError, match="belongs to runs with a folder"):
            unalike.train(digits, "mlp", **settings)

    def test_no_such_client(self, digits: Any):
        result = unalike.train(digits, "logistic", rounds=1, local={"epochs": 0.1})
        with pytest.raises(unalike.ConfigError, match="there is no client 4; choose 0 to 3"):
            result.personal(4)

    def test_settings_are_checked(self, digits: Any):
        with pytest.raises(unalike.ConfigError, match=r"'local\.lr' must be a number > 0"):
            unalike.train(digits, "mlp", local={"lr": 0})
        with pytest.raises(unalike.ConfigError, match="unknown setting 'epochs': did you mean"):
            unalike.train(digits, "mlp", epochs=3)

    def test_a_module_for_other_data(self, digits: Any):
        with pytest.raises(
            unalike.ConfigError, match="the model Linear cannot be used on 'digits'"
        ):
            unalike.train(digits, nn.Linear(3, 10))

    def test_names_are_checked(self):
        with pytest.raises(unalike.ConfigError, match="did you mean 'digits'"):
            unalike.dataset("digit")
        with pytest.raises(unalike.ConfigError, match="unknown dirichlet setting 'beta'"):
            unalike.partitioner("dirichlet", beta=3)


def test_groups_of_arrays_are_natural_clients():
    draw = np.random.default_rng(0)
    x, y, who = draw.normal(size=(90, 4)), np.arange(90) % 2, np.arange(90) // 30
    data = unalike.federate((x, y, who), unalike.partitioner("natural"))
    assert data.n_clients == 3
    skew = unalike.measure(data.counts)
    assert skew.emd == pytest.approx(0, abs=0.1)
    result = unalike.train(data, nn.Linear(4, 1), rounds=1)
    assert set(result.summary["last"]) >= {"local", "global", "round"}


class Sized(WeightRule):
    """Sizes to a power."""

    exponent: float = setting(1.0, "of the sizes", ge=0)

    def weights(self, state, cohort):
        p = cohort.share**self.exponent
        return Weighed(p / p.sum(), state)


def test_a_method_of_ones_own_as_class_or_object(digits):
    """Sizes to the power of one are FedAvg's weights, bit for bit; of zero they are not."""
    plain = unalike.train(digits, "logistic", "fedavg", rounds=2)
    for method in (Sized, Sized()):
        own = unalike.train(digits, "logistic", method, rounds=2)
        assert own.rounds[-1]["weights"] == plain.rounds[-1]["weights"]
        assert own.summary["last"] == plain.summary["last"]
    other = unalike.train(digits, "logistic", Sized(exponent=0.0), rounds=2)
    assert len(set(other.rounds[-1]["weights"])) == 1


def test_methods_of_ones_own_are_combined_and_refused_like_others(digits):
    both = unalike.train(digits, "logistic", "fedprox", rounds=1, plus=[Sized(exponent=0.0)])
    assert len(set(both.rounds[-1]["weights"])) == 1
    with pytest.raises(unalike.ConfigError, match="'Sized' and 'feddisco' both set the weights"):
        unalike.train(digits, "logistic", Sized, rounds=1, plus=["feddisco"])
    with pytest.raises(unalike.ConfigError, match="must be a name or a table"):
        unalike.train(digits, "logistic", 3, rounds=1)


class TestComparisonsOfDataInMemory:
    """Runs are processes of their own, which read the data from a file."""

    x = np.random.default_rng(0).normal(size=(90, 4))
    y, who = np.arange(90) % 3, np.array(["a", "b", "c"])[np.arange(90) // 30]

    def test_arrays_frames_and_clients_read_the_same(self, tmp_path: Path):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({**{f"f{j}": self.x[:, j] for j in range(4)}, "y": self.y})
        frame["who"] = self.who
        parts = {k: (self.x[self.who == k], self.y[self.who == k]) for k in "abc"}
        columns = {"label": "y", "client": "who"}
        cases = [((self.x, self.y, self.who), {}), (frame, columns), (parts, {})]
        read = []
        for data, more in [*cases, (frame, columns)]:
            table = data_table(data, tmp_path, **more)
            made = federation(parse({"data": table, "partition": "natural"}))
            assert made.names == ("a", "b", "c")
            read.append((made.examples.x, made.examples.y))
        for x, y in read[1:]:
            assert torch.equal(read[0][0], x)
            assert torch.equal(read[0][1], y)
        assert len(list(tmp_path.iterdir())) == 2, "the same data again are the same file"

    def test_mistakes(self, tmp_path: Path):
        with pytest.raises(unalike.ConfigError, match="separate processes: name your method"):
            unalike.compare("digits", "logistic", [Sized], folder=tmp_path / "a")
        with pytest.raises(unalike.ConfigError, match="name your model by its file"):
            unalike.compare((self.x, self.y), nn.Linear(4, 3), ["fedavg"], folder=tmp_path / "a")
        with pytest.raises(unalike.ConfigError, match="give methods to compare on this tuple"):
            unalike.compare((self.x, self.y))
        with pytest.raises(unalike.ConfigError, match="a comparison takes the name of a dataset"):
            unalike.compare(3, "logistic", ["fedavg"])
        assert not list(tmp_path.iterdir())


class TestCallablePackages:
    """``unalike.compare`` is a package and a function, whoever imports what first."""

    @pytest.mark.parametrize("name", ["compare", "report"])
    def test_signature_and_package(self, name: str):
        thing = getattr(unalike, name)
        assert next(iter(inspect.signature(thing).parameters)) == "what"
        assert isinstance(thing, ModuleType)
        assert import_module(f"unalike.{name}") is thing


class TestInANotebook:
    """A stand-in for IPython: what would be displayed, and how often."""

    @pytest.fixture
    def shown(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        texts: list[str] = []
        module, display = ModuleType("IPython"), ModuleType("IPython.display")
        module.get_ipython = lambda: SimpleNamespace(kernel=object())
        display.HTML = str
        handle = SimpleNamespace(update=texts.append)
        display.display = lambda text, display_id: texts.append(text) or handle
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setattr("unalike.notebook.EVERY", 0.0)
        return texts

    def test_a_bar_for_training(self, shown: list[str], digits: Any):
        unalike.train(digits, "logistic", rounds=3)
        assert len(shown) == 3
        assert 'value="3" max="3"' in shown[-1]
        assert "round 3 of 3 accuracy %  local" in shown[-1]

    def test_a_bar_for_comparisons(self, shown: list[str], tmp_path: Path):
        arrays = TestComparisonsOfDataInMemory
        data, options = (arrays.x, arrays.y, arrays.who), {"rounds": 1, "seeds": 1, "processes": 1}
        methods = ["fedavg", "fedprox"]
        made = unalike.compare(data, "logistic", methods, folder=tmp_path / "c", **options)
        assert "2 of 2 runs done" in shown[-1]
        assert made.made.conditions == ["natural"]
        assert "<table" in made._repr_html_()
        assert "fedprox" in repr(made)
        assert unalike.report(made).name == "report.html"

    def test_none_if_not_wanted(self, shown: list[str], digits: Any):
        unalike.train(digits, "logistic", rounds=1, progress=False)
        assert shown == []


def test_a_result_is_short_in_a_terminal(digits: Any, tmp_path: Path, monkeypatch: Any):
    monkeypatch.chdir(tmp_path)
    result = unalike.train(digits, "logistic", "fedprox", rounds=1)
    assert repr(result).splitlines()[0] == "fedprox, 4 clients"
    assert len(repr(result).splitlines()) < 8
    assert str(result.save()) == "runs/fedprox-digits-seed0"
    assert str(result.save()) == "runs/fedprox-digits-seed0-2"
