"""Models of the user's own: wrong, odd, hostile, and merely unusual."""

from pathlib import Path

from breaking.corpus import EITHER, FAILS, OWN, REFUSED, WORKS, Case
from breaking.server import Outcome, call

KIND = "own model"
HEAD = "import os, sys, time\nimport torch\nfrom torch import nn\n"
LINE = "self.layer = nn.Linear(d, c)"
THROUGH = "return self.layer(x.flatten(1))"
SETTINGS = (
    'rounds = {}\nmodel = {{name = "module", file = "m.py", attribute = "{}"}}\n'
    'partition = {{name = "iid", clients = 3}}\nrun.folder = "out"\n{}'
)
ONE_BY_ONE = 'engine = {kind = "sequential", workers = 1, traced = false}\n'
TOGETHER = 'engine = {kind = "vectorized"}\n'


def network(made: str = LINE, computed: str = THROUGH) -> str:
    """A module by the lines of its constructor and of its forward pass."""
    lines = [
        "class Model(nn.Module):",
        "    def __init__(self, s, c):",
        "        super().__init__()",
        "        d = s[0] * s[1] * s[2]",
        *(f"        {line}" for line in made.split("\n")),
        "    def forward(self, x):",
        *(f"        {line}" for line in computed.split("\n")),
    ]
    return "\n".join(lines) + "\n"


def layers(text: str) -> str:
    return f"def Model(s, c):\n    d = s[0] * s[1] * s[2]\n    return nn.Sequential({text})\n"


def settled(place: Path, outcome: Outcome) -> None:
    """What finished has a folder that is whole."""
    if outcome.code == 0:
        verified = call(["verify", "out"], place)
        assert verified.code == 0, verified.err


def repeated(place: Path, outcome: Outcome) -> None:
    """What finished comes to the same bytes a second time."""
    settled(place, outcome)
    if outcome.code == 0:
        again = call(["run", "c.toml", "--set", "run.folder=again"], place)
        assert again.code == 0, again.err
        one, two = (place / name / "rounds.jsonl" for name in ("out", "again"))
        assert one.read_bytes() == two.read_bytes(), "two runs differ"


def case(
    name: str,
    want: str,
    code: str,
    cause: str = "",
    more: str = "",
    rounds: int = 3,
    attribute: str = "Model",
    head: str = HEAD,
    twice: bool = False,
    files: dict[str, str] | None = None,
) -> Case:
    files = {"m.py": head + code, "c.toml": SETTINGS.format(rounds, attribute, more)} | (
        files or {}
    )
    check = repeated if twice else settled
    return Case(KIND, name, want, ["run", "c.toml"], files, cause, None, check)


COUNT = "N = []\n"
WRONG = [
    case("plain", WORKS, network(), twice=True),
    case("not a number", REFUSED, network(computed=THROUGH + " * float('nan')")),
    case("infinite", REFUSED, network(computed=THROUGH + " + float('inf')")),
    case(
        "not a number later",
        EITHER,
        COUNT + network(computed=f"N.append(1)\n{THROUGH} * (float('nan') if len(N) > 40 else 1)"),
        more=ONE_BY_ONE,
    ),
    case("another width", REFUSED, network("self.layer = nn.Linear(d, c + 1)")),
    case("one axis", REFUSED, network(computed=THROUGH + ".sum(1)")),
    case("a tuple", REFUSED, network(computed="return (self.layer(x.flatten(1)),)")),
    case("nothing", REFUSED, network(computed="return None")),
    case("a dictionary", REFUSED, network(computed="return {'a': self.layer(x.flatten(1))}")),
    case("complex", REFUSED, network(computed=THROUGH + ".to(torch.complex64)")),
    case(
        "complex weights",
        EITHER,
        network(
            "self.w = nn.Parameter(torch.zeros(d, c, dtype=torch.complex64))",
            "return (x.flatten(1).to(torch.complex64) @ self.w).real",
        ),
    ),
    case(
        "doubles",
        EITHER,
        network(
            "self.layer = nn.Linear(d, c).double()", "return self.layer(x.flatten(1).double())"
        ),
    ),
    case(
        "halves",
        EITHER,
        network("self.layer = nn.Linear(d, c).half()", "return self.layer(x.flatten(1).half())"),
    ),
    case("whole numbers", REFUSED, network(computed=THROUGH + ".long()")),
    case("no weights", REFUSED, network("pass", "return x.flatten(1)[:, :10]")),
    case(
        "nothing but frozen weights",
        REFUSED,
        network(LINE + "\nself.requires_grad_(False)"),
        "frozen",
    ),
    case("weights that are not used", EITHER, network(LINE + "\nself.more = nn.Linear(3, 3)")),
    case("a gradient cut off", EITHER, network(computed=THROUGH + ".detach()")),
    case("a constant", EITHER, network(computed="return torch.zeros(len(x), 10)")),
    case("an error", REFUSED, network(computed="raise RuntimeError('boom')")),
    case(
        "an error in a later round",
        OWN,
        COUNT + network(computed="N.append(1)\nif len(N) > 120: raise RuntimeError\n" + THROUGH),
        "own exception",
        ONE_BY_ONE,
        8,
    ),
    case(
        "sys.exit in a later round",
        OWN,
        COUNT + network(computed="N.append(1)\nif len(N) > 120: sys.exit(0)\n" + THROUGH),
        "sys.exit",
        ONE_BY_ONE,
        8,
    ),
    case(
        "os._exit in a later round",
        OWN,
        COUNT + network(computed="N.append(1)\nif len(N) > 120: os._exit(0)\n" + THROUGH),
        "sys.exit",
        ONE_BY_ONE,
        8,
    ),
    case("sys.exit in the forward pass", REFUSED, network(computed="sys.exit(3)"), "sys.exit"),
    case("os._exit in the forward pass", REFUSED, network(computed="os._exit(0)"), "sys.exit"),
    case("sys.exit when imported", REFUSED, "sys.exit(0)\n", "sys.exit"),
    case("os._exit when imported", REFUSED, "os._exit(0)\n", "sys.exit"),
    case("a base exception when imported", REFUSED, "raise BaseException('x')\n", "sys.exit"),
    case("without an end", REFUSED, network(computed="return self.forward(x)")),
    case("without memory", REFUSED, network(computed="torch.empty(10**14)\nreturn x")),
    case("a wrong type in the constructor", REFUSED, network("len(3)")),
    case("a wrong value in the constructor", REFUSED, network("raise ValueError('no')")),
    case(
        "a constructor without arguments",
        REFUSED,
        "class Model(nn.Module):\n    def __init__(self): super().__init__()\n",
    ),
    case("not a module", REFUSED, "def Model(s, c): return 3\n"),
    case("not Python", REFUSED, "def (:\n"),
    case("a missing library", REFUSED, "import nopenope\n"),
    case("a missing name", REFUSED, "x = 1\n"),
    case("a name of underscores", REFUSED, network(), attribute="__name__"),
    case("a library as a model", REFUSED, network(), attribute="os"),
    case("an error of several lines", REFUSED, "raise ValueError('a\\nb\\n\\u2603 [red]')\n"),
]


def frozen(place: Path, outcome: Outcome) -> None:
    """The frozen layer is what the file made it, to the bit."""
    import torch
    from safetensors.torch import load_file

    settled(place, outcome)
    found = load_file(place / "out" / "model.safetensors")
    torch.manual_seed(0)
    made = torch.nn.Linear(64, 16)
    assert torch.equal(found["body.weight"], made.weight)
    assert torch.equal(found["body.bias"], made.bias)


FROZEN = network(
    "torch.manual_seed(0)\nself.body = nn.Linear(64, 16)\nself.body.requires_grad_(False)\n"
    "self.last = nn.Linear(16, c)",
    "return self.last(torch.relu(self.body(x.flatten(1))))",
)
HOLDS = {"m.py": HEAD + FROZEN, "c.toml": SETTINGS.format(3, "Model", 'run.init = "given"\n')}

UNUSUAL = [
    case(
        "dataclasses with late annotations",
        WORKS,
        "from dataclasses import dataclass\n@dataclass\nclass Width:\n    width: int = 8\n"
        + network(),
        "late annotations",
        head="from __future__ import annotations\n" + HEAD,
    ),
    case("a file beside it", EITHER, "import helper\n" + network(), files={"helper.py": "W = 8\n"}),
    case("batch normalisation", WORKS, layers("nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(d, c)")),
    case(
        "batch normalisation of one",
        EITHER,
        layers("nn.Flatten(), nn.BatchNorm1d(d), nn.Linear(d, c)"),
        more="local.batch_size = 1\n",
    ),
    case(
        "batch normalisation together",
        EITHER,
        layers("nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(d, c)"),
        more=TOGETHER,
    ),
    case(
        "dropout together",
        EITHER,
        layers("nn.Flatten(), nn.Dropout(0.5), nn.Linear(d, c)"),
        more=TOGETHER,
        twice=True,
    ),
    case(
        "layer normalisation",
        WORKS,
        layers("nn.Flatten(), nn.LayerNorm(d), nn.GELU(), nn.Linear(d, c)"),
    ),
    case(
        "instance normalisation",
        EITHER,
        layers(
            "nn.InstanceNorm2d(1, affine=True, track_running_stats=True), nn.Flatten(), "
            "nn.Linear(d, c)"
        ),
    ),
    case(
        "weights that two layers share",
        EITHER,
        network(
            "self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)\nself.b.weight = self.a.weight\n"
            + LINE,
            "return self.layer(self.b(self.a(x.flatten(1))))",
        ),
    ),
    case(
        "an embedding",
        EITHER,
        network(
            "self.e = nn.Embedding(20, 4)\nself.layer = nn.Linear(d * 4, c)",
            "x = (x.flatten(1) * 16).long().clamp(0, 19)\nreturn self.layer(self.e(x).flatten(1))",
        ),
    ),
    case(
        "an embedding too small",
        FAILS,
        network(
            "self.e = nn.Embedding(2, 4)\nself.layer = nn.Linear(d * 4, c)",
            "return self.layer(self.e((x.flatten(1) * 16).long()).flatten(1))",
        ),
    ),
    case("a lazy layer", EITHER, layers("nn.Flatten(), nn.LazyLinear(c)")),
    case(
        "spectral normalisation",
        EITHER,
        network("self.layer = nn.utils.parametrizations.spectral_norm(nn.Linear(d, c))"),
    ),
    case(
        "weight normalisation",
        EITHER,
        network("self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(d, c))"),
    ),
    case(
        "a buffer that counts",
        EITHER,
        network(
            LINE + "\nself.register_buffer('n', torch.zeros((), dtype=torch.long))",
            "self.n += 1\n" + THROUGH,
        ),
    ),
    case(
        "a buffer that is not kept",
        EITHER,
        network(
            LINE + "\nself.register_buffer('k', torch.ones(1), persistent=False)",
            THROUGH + " * self.k",
        ),
    ),
    case(
        "a branch on values",
        WORKS,
        network(computed="h = x.flatten(1)\nif h.sum() > 0: h = h * 1\nreturn self.layer(h)"),
        "no fallback",
    ),
    case("a value read", WORKS, network(computed="x.sum().item()\n" + THROUGH), "no fallback"),
    case(
        "a weight of snow",
        EITHER,
        network("self.register_parameter('ß☃', nn.Parameter(torch.zeros(1)))\n" + LINE),
    ),
    case(
        "a weight called like a note",
        EITHER,
        network("self.register_parameter('__metadata__', nn.Parameter(torch.zeros(1)))\n" + LINE),
    ),
    case("an empty weight", EITHER, network(LINE + "\nself.e = nn.Parameter(torch.zeros(0))")),
    case(
        "weights not a number",
        EITHER,
        network(LINE + "\nself.layer.weight.data.fill_(float('nan'))"),
        more='run.init = "given"\n',
    ),
    case("another precision", EITHER, "torch.set_default_dtype(torch.float64)\n" + network()),
    case("gradients switched off", EITHER, "torch.set_grad_enabled(False)\n" + network()),
    case(
        "a forward pass without gradients",
        EITHER,
        network(computed=f"with torch.no_grad(): {THROUGH}"),
    ),
    case("another folder", EITHER, "os.chdir('/')\n" + network()),
    case("output closed", EITHER, "sys.stdout.close()\n" + network()),
    case("three seconds to import", WORKS, "time.sleep(3)\n" + network()),
    case(
        "a signal taken",
        EITHER,
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + network(),
    ),
    case(
        "an error when deleted",
        EITHER,
        network() + "    def __del__(self): raise ValueError('late')\n",
    ),
    case("a warning", EITHER, "import warnings\nwarnings.warn('x')\n" + network()),
    case(
        "a state of its own", EITHER, network() + "    def state_dict(self, *a, **k): return {}\n"
    ),
    case(
        "a recurrent network",
        EITHER,
        network(
            "self.r = nn.LSTM(8, 8, batch_first=True)\nself.layer = nn.Linear(8, c)",
            "return self.layer(self.r(x.flatten(1).view(len(x), 8, 8))[0][:, -1])",
        ),
    ),
    Case(KIND, "frozen layers", WORKS, ["run", "c.toml"], HOLDS, "frozen", None, frozen),
]

NOISE = "x = x.flatten(1)\nreturn self.layer(x + {})"
DRAWS = [
    case(
        "noise of torch",
        EITHER,
        network(computed=NOISE.format("0.1 * torch.randn_like(x)")),
        "global draws",
        twice=True,
    ),
    case(
        "noise of torch when judged",
        WORKS,
        network(computed=NOISE.format("(0 if self.training else torch.randn_like(x))")),
        "global draws",
        twice=True,
    ),
    case(
        "seeded by the clock",
        EITHER,
        network(computed="torch.manual_seed(time.time_ns())\n" + THROUGH),
        twice=True,
    ),
    case(
        "dropout one by one",
        WORKS,
        layers("nn.Flatten(), nn.Dropout(0.5), nn.Linear(d, c)"),
        more=ONE_BY_ONE,
        twice=True,
    ),
    case(
        "noise of NumPy",
        REFUSED,
        "import numpy as np\n" + network(computed=NOISE.format("float(np.random.rand())")),
        "global draws",
    ),
    case(
        "noise of Python when judged",
        REFUSED,
        "import random\n"
        + network(computed=NOISE.format("(0 if self.training else random.random())")),
        "global draws",
    ),
]
CASES = WRONG + UNUSUAL + DRAWS
