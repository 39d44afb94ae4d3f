"""Which release this is: a coordinator and its sites must have the same."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """The installed version, or ``unknown`` where the package is not installed."""
    try:
        return version("unalike")
    except PackageNotFoundError:
        return "unknown"
