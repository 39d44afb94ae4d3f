"""``unalike``: the commands, their help, and errors in one sentence with exit code 2.

Nothing heavy is imported before a command runs, so that help and mistakes answer at once.
"""

import io
import os
import re
import signal
import sys
import warnings

from cyclopts import CycloptsError

from unalike.cli.app import app
from unalike.cli.commands import overview, runs, sites, studies, use  # noqa: F401  (each adds its commands)
from unalike.errors import OwnCodeError, UnalikeError, warned


def main() -> None:
    """The entry point: 0 if all went well, 1 for own code, 2 for a mistake, 130 if stopped."""
    # Threads that wait by spinning make small networks a hundred times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.formatwarning = warned
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may be in no alphabet at all
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except OwnCodeError as error:
        print(error.frames, end="", file=sys.stderr)
        _fail(str(error), 1)
    except UnalikeError as error:
        _fail(str(error))
    except CycloptsError as error:
        from unalike.cli.mistakes import sentence

        _fail(sentence(app, error))
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted before the run began.", file=sys.stderr)
        sys.exit(130)


def _fail(message: str, code: int = 2) -> None:
    print("error:", re.sub(r"\s*\n\s*", " ", message.strip()), file=sys.stderr)
    sys.exit(code)


def script() -> None:
    """``main`` as a separate process: pressing Ctrl-C repeatedly does not disturb its end."""
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    script()
