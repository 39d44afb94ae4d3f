"""Dependencies have two ends, are locked, and are listed in the bill of materials."""

import importlib.util
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNTIME = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = ("hub", "image", "dp", "tensorboard", "mlflow", "wandb", "tune", "pretrained")
OPTIONAL = [Requirement(t) for extra in EXTRAS for t in PROJECT["optional-dependencies"][extra]]


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def locked() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name_of(name): Version(version) for name, _, version in pins}


def test_every_dependency_has_two_ends() -> None:
    for wanted in (*RUNTIME, *OPTIONAL):
        signs = {one.operator for one in wanted.specifier}
        assert signs == {">=", "<"}, wanted


def test_the_lock_holds_every_dependency_within_its_bounds() -> None:
    pins = locked()
    for wanted in RUNTIME:
        assert wanted.specifier.contains(pins[name_of(wanted.name)]), wanted


def test_the_bill_of_materials_is_closed() -> None:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    sbom = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sbom)
    made = sbom.bill(sbom.closure())
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    named = {name_of(c["name"]): c for c in made["components"]}
    assert {name_of(wanted.name) for wanted in RUNTIME} <= named.keys()
    refs = {c["bom-ref"] for c in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert {d["ref"] for d in made["dependencies"]} == refs
    assert all(one in refs for d in made["dependencies"] for one in d["dependsOn"])
    assert named["torch"]["purl"].startswith("pkg:pypi/torch@2.")
    assert all(c["licenses"][0]["license"]["name"] for c in named.values())
