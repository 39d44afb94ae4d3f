"""What must hold whatever goes in: it works, one sentence, or the user's own line; never else."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from breaking.server import Outcome

from unalike.errors import OwnCodeError, UnalikeError

COUNTS: Counter[tuple[str, str]] = Counter()  # (kind of case, what came of it)


def attempt(kind: str, act: Callable[[], Any], shown: object = "") -> Any:
    """Do something in this process; what it returns, or None if it was refused in one sentence."""
    try:
        found = act()
    except UnalikeError as error:
        said = str(error)
        assert said, f"{kind}: an empty sentence for {shown!r:.500}"
        COUNTS[kind, "own code" if isinstance(error, OwnCodeError) else "refused"] += 1
        return None
    except Exception as error:
        COUNTS[kind, "failed"] += 1
        raise AssertionError(f"{kind}: {type(error).__name__} for {shown!r:.1500}") from error
    COUNTS[kind, "survived"] += 1
    return found


def judge(kind: str, outcome: Outcome, shown: object = "", want: str = "") -> str:
    """What came of it; an AssertionError if it is nothing that may be, or not what is wanted."""
    code, said = outcome.code, outcome.err.strip().splitlines()
    errors = [line for line in said if line.startswith("error: ")]
    what = {0: "survived", 1: "own code", 2: "refused"}.get(code if code is not None else -1, "")
    # What Python itself says of an error in a destructor is about the user's own line.
    ours = re.sub(r"Exception ignored in.*\n(Traceback .*)", "", outcome.err)
    fine = bool(what) and "Traceback (most recent call last)" not in ours
    fine = fine and (code == 0 or (len(errors) == 1 and said[-1] == errors[0]))
    fine = fine and (code != 1 or "your own code failed" in errors[0])
    fine = fine and (not want or what in want)
    COUNTS[kind, what if fine else "failed"] += 1
    shown = f"{shown!r:.1500}{want and f', which should be {want}'}"
    assert fine, f"{kind}: exit code {code} for {shown}\n{outcome.err[-3000:]}"
    return what
