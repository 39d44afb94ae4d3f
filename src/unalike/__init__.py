"""Federated learning for data that are not alike.

The names below are imported when they are first used, so that ``import unalike`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unalike.api import train
    from unalike.comparing import Compared, compare, report
    from unalike.errors import ConfigError, DataError, RunError, UnalikeError
    from unalike.federating import dataset, federate, partitioner
    from unalike.federation.data import Federation
    from unalike.federation.feature_skew import measure_features
    from unalike.federation.readers import from_arrays, from_frame
    from unalike.federation.skew import measure
    from unalike.predict.trained import Trained, load
    from unalike.result import Result
    from unalike.run.configuration.config import parse, read_config
    from unalike.track.running import resume, start

__all__ = [
    "Compared",
    "ConfigError",
    "DataError",
    "Federation",
    "Result",
    "RunError",
    "Trained",
    "UnalikeError",
    "compare",
    "dataset",
    "federate",
    "from_arrays",
    "from_frame",
    "load",
    "measure",
    "measure_features",
    "parse",
    "partitioner",
    "read_config",
    "report",
    "resume",
    "start",
    "train",
]

_HOMES = {
    "unalike.api": ("train",),
    "unalike.comparing": ("Compared",),
    "unalike.errors": ("ConfigError", "DataError", "RunError", "UnalikeError"),
    "unalike.federating": ("dataset", "federate", "partitioner"),
    "unalike.federation.data": ("Federation",),
    "unalike.federation.feature_skew": ("measure_features",),
    "unalike.federation.readers": ("from_arrays", "from_frame"),
    "unalike.federation.skew": ("measure",),
    "unalike.predict.trained": ("Trained", "load"),
    "unalike.result": ("Result",),
    "unalike.run.configuration.config": ("parse", "read_config"),
    "unalike.track.running": ("resume", "start"),
}
_PACKAGES = ("compare", "report")  # which can be called
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("unalike")
    if name in _PACKAGES:
        return import_module(f"unalike.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'unalike' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
