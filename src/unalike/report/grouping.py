"""What a method or a topology makes of the clients' data, in words: groups, augmented rows."""

from collections.abc import Mapping
from typing import Any

from unalike.errors import counted
from unalike.report.skew import DECIMALS
from unalike.tables.format import decimal

GROUPS = {"phases": "phase", "clusters": "cluster", "neighbourhoods": "neighbourhood"}


def grouping(data: Mapping[str, Any]) -> list[str]:
    """Sentences without their full stops, from a ``skew.json``."""
    said = [_of_groups(name, found) for name, found in data.get("groups", {}).items()]
    if done := data.get("augmented"):
        before, after = (decimal(done[f"emd_{when}"], DECIMALS) for when in ("before", "after"))
        said.append(
            f"augmentation leaves {100 * done['unaltered']:.1f} % of a client's training rows "
            f"unaltered; mean EMD from even labels {before} before, {after} after"
        )
    return said


def _of_groups(name: str, found: Mapping[str, Any]) -> str:
    """How far the labels of groups are from all, and from one another."""
    whole, between = (decimal(found[k], DECIMALS) for k in ("emd", "emd_between"))
    words = f"{counted(found['groups'], GROUPS.get(name, name))}: mean EMD {whole} from all data"
    return f"{words}, {between} between two" if found["groups"] > 1 else words
