"""The software bill of materials of a wheel: what unalike runs with, as CycloneDX 1.6 (ECMA-424).

python tools/sbom.py dist          writes dist/unalike-VERSION.cdx.json
"""

import hashlib
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = "unalike"


def closure(root: str = ROOT) -> dict[str, Distribution]:
    """The package and everything it needs without extras, by normalised name, as installed."""
    found: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        name = normal(waiting.pop())
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # for another platform
            continue
        waiting += needs(found[name])
    return found


def needs(package: Distribution) -> list[str]:
    """The names of what a package needs on this machine, without extras."""
    wanted = [Requirement(text) for text in package.requires or ()]
    return [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]


def bill(packages: dict[str, Distribution], root: str = ROOT) -> dict[str, Any]:
    """The bill: components, and who needs whom."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(packages[root], "application")},
        "components": [component(p) for name, p in sorted(packages.items()) if name != root],
        "dependencies": [
            {
                "ref": purl(package),
                "dependsOn": sorted(
                    purl(packages[n]) for n in map(normal, needs(package)) if n in packages
                ),
            }
            for _, package in sorted(packages.items())
        ],
    }


def component(package: Distribution, kind: str = "library") -> dict[str, Any]:
    """One package."""
    about = package.metadata
    licence = about.get("License-Expression") or about.get("License") or "unknown"
    return {
        "type": kind,
        "bom-ref": purl(package),
        "name": about["Name"],
        "version": package.version,
        "purl": purl(package),
        "licenses": [{"license": {"name": licence.splitlines()[0][:100]}}],
    }


def purl(package: Distribution) -> str:
    """The package's address in any index."""
    return f"pkg:pypi/{normal(package.metadata['Name'])}@{package.version}"


def normal(name: str) -> str:
    """A name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(folder: str) -> None:
    """Write the bill beside the wheel."""
    packages = closure()
    made, version = bill(packages), packages[ROOT].version
    for wheel in Path(folder).glob(f"{ROOT}-{version}-*.whl"):  # which one it is about
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        made["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": digest}]
    path = Path(folder) / f"{ROOT}-{version}.cdx.json"
    path.write_text(json.dumps(made, indent=2) + "\n")
    print(f"wrote {path}: {len(packages)} packages")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["dist"])
