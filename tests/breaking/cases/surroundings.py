"""Own code that does something to the process it runs in, and sites that cannot be."""

from pathlib import Path

from breaking.cases.models import HEAD, ONE_BY_ONE, SETTINGS, THROUGH, network, settled
from breaking.corpus import EITHER, REFUSED, WORKS, Case
from breaking.server import Limits, Outcome, call

RECORD = "import pathlib\np = pathlib.Path('out/rounds.jsonl')\nif p.exists(): p.write_text('')\n"


def as_without(place: Path, outcome: Outcome) -> None:
    """What the code does beside its work changes no number."""
    settled(place, outcome)
    (place / "m.py").write_text(HEAD + network())
    plain = call(["run", "c.toml", "--set", "run.folder=plain"], place)
    assert plain.code == 0, plain.err
    one, two = (place / name / "rounds.jsonl" for name in ("out", "plain"))
    assert one.read_bytes() == two.read_bytes(), "it did change something"


def own(name: str, want: str, code: str, cause: str = "", more: str = "") -> Case:
    files = {"m.py": HEAD + code, "c.toml": SETTINGS.format(3, "Model", more)}
    check = as_without if want == WORKS else settled
    return Case("surroundings", name, want, ["run", "c.toml"], files, cause, None, check)


def before(line: str) -> str:
    return network(computed=f"{line}\n{THROUGH}")


OWN = [
    own("another folder in the forward pass", WORKS, before("os.chdir('/')"), "own folder"),
    own("its own file is removed", REFUSED, "os.remove(__file__)\n" + network(), "own folder"),
    own("the records are emptied", REFUSED, before(RECORD), "own folder"),
    own("input changed in place", REFUSED, before("x += 1"), "in place", ONE_BY_ONE),
    own(
        "input changed by a layer", REFUSED, before("nn.ReLU(inplace=True)(x.sub_(1))"), "in place"
    ),
    own("values between layers changed in place", EITHER, before("x = (x + 1).mul_(2)")),
    own("a coroutine", REFUSED, "async def Model(s, c): return nn.Linear(64, c)\n", "wording"),
    own("a generator", REFUSED, "def Model(s, c): yield nn.Linear(64, c)\n"),
    own("gradients turned off", WORKS, "torch.set_grad_enabled(False)\n" + network()),
    own(
        "warnings are errors",
        WORKS,
        "import warnings\nwarnings.simplefilter('error')\n" + network(),
    ),
    own("64 threads", EITHER, "torch.set_num_threads(64)\n" + network()),
    own(
        "a thread of its own",
        WORKS,
        "import threading\nthreading.Timer(1, int).start()\n" + network(),
    ),
    own("open is nothing", EITHER, "import builtins\nbuiltins.open = None\n" + network()),
    own(
        "Ctrl-C is ignored", WORKS, "import signal\nsignal.signal(2, signal.SIG_IGN)\n" + network()
    ),
    own("a seed in the forward pass", WORKS, before("torch.manual_seed(0)")),
    own("endless recursion", REFUSED, network(computed="return self(x)")),
    own("more memory than there is", REFUSED, before("torch.zeros(10**13)")),
    own("tabs and spaces", REFUSED, "def Model(s, c):\n\treturn 1\n        return 2\n"),
]
SERVE = ["serve", "c.toml", "--at", "127.0.0.1:0", "--sites"]
JOIN = ["join", "north", "--data", "d.csv", "--label", "y"]
ROWS = "a,y\n" + "".join(f"{i},{'pq'[i % 2]}\n" for i in range(20))


def site(name: str, want: str, arguments: list[str], cause: str = "") -> Case:
    files = {"c.toml": 'rounds = 2\nmodel = "logistic"\n', "d.csv": ROWS}
    return Case("deployment", name, want, arguments, files, cause, limits=Limits(20))


SITES = [
    site(
        "a port that is too large", REFUSED, [*SERVE[:3], "127.0.0.1:99999", "--sites", "a"], "port"
    ),
    site("a port that is a word", REFUSED, [*SERVE[:3], "127.0.0.1:http", "--sites", "a"]),
    site("no port", REFUSED, [*SERVE[:3], "localhost", "--sites", "a"]),
    site("a site above its folder", REFUSED, [*SERVE, "../a", "b"], "port"),
    site("a site of nothing", REFUSED, [*SERVE, "", "b"]),
    site("a site of a line break", REFUSED, [*SERVE, "a\nb", "c"]),
    site("the same site twice", REFUSED, [*SERVE, "a", "a"]),
    site("another machine without keys", REFUSED, [*SERVE[:3], "0.0.0.0:0", "--sites", "a"]),
    site(
        "joining at a port that is too large", REFUSED, [*JOIN, "--at", "127.0.0.1:70000"], "port"
    ),
    site("joining as somebody above", REFUSED, ["join", "../b", *JOIN[2:], "--at", "127.0.0.1:1"]),
    site(
        "joining without a label", REFUSED, ["join", "b", "--data", "d.csv", "--dry-run", "c.toml"]
    ),
    site("a dry run", WORKS, [*JOIN, "--dry-run", "c.toml"]),
    site("a dry run without the label", REFUSED, [*JOIN[:-1], "z", "--dry-run", "c.toml"]),
    site("keys for nobody", REFUSED, ["keys", ""]),
]
CASES = [*OWN, *SITES]
