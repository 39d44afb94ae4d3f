"""The worked example of a whole method: short, made of public names, and Ditto bit for bit."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from command_line import Unalike

import unalike as library
from unalike.extend import Method

PAGE = Path(__file__).parent.parent / "docs" / "how-to-own-method.md"
CODE = re.findall(
    r'^```python title="my_ditto.py"\n(.*?)^```', PAGE.read_text("utf-8"), re.M | re.S
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (code,) = CODE
    path = tmp_path_factory.mktemp("own") / "my_ditto.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="module")
def method(file: Path) -> type[Method]:
    spec = spec_from_file_location("my_ditto", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MyDitto


def test_it_is_short_and_public() -> None:
    (code,) = CODE
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
    assert set(re.findall(r"(?:from|import) (unalike[\w.]*)", code)) == {"unalike.extend"}


CASES: dict[str, dict[str, Any]] = {
    "alone": {},
    "pull": {"pull": 0.25},
    "batch normalisation": {"model": {"name": "mlp", "hidden": [8], "batch_norm": True}},
    "some clients": {"participation": {"number": 2}},
    "beside others": {"plus": ["fedprox", "fedadam"]},
    "around SCAFFOLD": {"plus": ["scaffold"]},
    "momentum": {"local": {"momentum": 0.9}},
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_ditto(case: str, method: type[Method]) -> None:
    digits = library.federate("digits", {"name": "dirichlet", "clients": 3, "min_size": 20})
    settings = {"model": "logistic", "rounds": 2, **CASES[case]}
    pull = {"pull": settings.pop("pull", 1.0)}
    ours = library.train(digits, method=method(**pull), **settings)
    theirs = library.train(digits, method={"name": "ditto", **pull}, **settings)
    assert ours.rounds == theirs.rounds
    assert ours.clients == theirs.clients
    assert ours.summary == theirs.summary
    for k in range(3):
        one, two = (r.personal(k).state_dict() for r in (ours, theirs))
        assert all(one[name].equal(two[name]) for name in two)


def test_it_keeps_the_contract(file: Path, unalike: Unalike) -> None:
    code, out, said = unalike("check", str(file))
    assert (code, said) == (0, "")
    assert "BROKEN" not in out
