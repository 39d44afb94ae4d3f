"""The count of what was refused, survived and failed, at the end."""

from typing import Any

from breaking.property import COUNTS


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not COUNTS:
        return
    terminalreporter.section("tried to break it")
    columns = ("survived", "refused", "own code", "failed")
    terminalreporter.line(f"{'':<16}" + "".join(f"{c:>10}" for c in columns))
    for kind in [*sorted({kind for kind, _ in COUNTS}), ""]:
        mine = {(k, w): n for (k, w), n in COUNTS.items() if kind in ("", k)}
        cells = [sum(n for (_, w), n in mine.items() if w == c) for c in columns]
        terminalreporter.line(f"{kind or 'all':<16}" + "".join(f"{n:>10,}" for n in cells))
