"""Configurations, overrides and commands."""

import os
from pathlib import Path

from breaking.corpus import EITHER, REFUSED, WORKS, Case
from breaking.server import Limits

KIND = "configuration"
SMALL = 'rounds = 2\nmodel = "logistic"\npartition = {name = "iid", clients = 3}\n'
EVEN = 'rounds = 1\nmodel = "logistic"\n[partition]\nname = "dirichlet"\nclients = 3\n'

TEXTS: list[tuple[str, str, str | bytes] | tuple[str, str, str | bytes, str]] = [
    ("small", WORKS, SMALL),
    ("rounds of text", REFUSED, 'rounds="ten"'),
    ("rounds and a half", REFUSED, "rounds=2.5"),
    ("rounds not a number", REFUSED, "rounds=nan"),
    ("negative rounds", REFUSED, "rounds=-1"),
    ("rounds of 5,000 digits", REFUSED, "rounds=" + "9" * 5000, "absurd text"),
    ("infinite rounds", REFUSED, "rounds=1e400"),
    ("rounds beyond 64 bits", REFUSED, f"rounds={2**80}", "absurd sizes"),
    ("rounds of a date", REFUSED, "rounds=2020-01-01T00:00:00Z"),
    ("learning rate not a number", REFUSED, "[local]\nlr=nan"),
    ("learning rate infinite", REFUSED, "[local]\nlr=inf"),
    ("learning rate minus infinity", REFUSED, "[local]\nlr=-inf"),
    ("learning rate true", REFUSED, "[local]\nlr=true"),
    ("batch of twenty digits", EITHER, SMALL + "[local]\nbatch_size=99999999999999999999"),
    ("batch of a terabyte", EITHER, SMALL + f"[local]\nbatch_size={2**40}"),
    ("a trillion clients", REFUSED, '[partition]\nname="iid"\nclients=1000000000000'),
    ("clients beyond 64 bits", REFUSED, f'[partition]\nname="iid"\nclients={2**70}'),
    ("alpha denormal", EITHER, EVEN + "alpha=1e-320"),
    ("alpha enormous", EITHER, EVEN + "alpha=1e308"),
    ("alpha tiny", EITHER, EVEN + "alpha=1e-5"),
    ("alpha not a number", REFUSED, EVEN + "alpha=nan"),
    ("alpha infinite", REFUSED, EVEN + "alpha=inf"),
    ("seed of 2^63", REFUSED, f"seed={2**63}"),
    ("largest seed", WORKS, f"seed={2**63 - 1}\n" + SMALL),
    ("negative seed", REFUSED, "seed=-1"),
    ("width of 10^11", REFUSED, 'rounds=1\nmodel={name="mlp",hidden=[100000000000]}'),
    ("width of zero", REFUSED, 'model={name="mlp",hidden=[0]}'),
    ("negative width", REFUSED, 'model={name="mlp",hidden=[-3]}'),
    ("no hidden layer", EITHER, 'rounds=1\nmodel={name="mlp",hidden=[]}'),
    ("width of text", REFUSED, 'model={name="mlp",hidden="x"}'),
    ("5,000 brackets", REFUSED, "rounds=" + "[" * 5000 + "]" * 5000, "absurd text"),
    ("200 brackets", REFUSED, "rounds=" + "[" * 200 + "]" * 200),
    ("3,000 braces", REFUSED, "method=" + "{a=" * 3000 + "1" + "}" * 3000, "absurd text"),
    ("a key of 5,000 parts", REFUSED, ".".join(["a"] * 5000) + "=1", "absurd text"),
    ("a key twice", REFUSED, "rounds=1\nrounds=2"),
    ("a table twice", REFUSED, "[local]\nlr=1\n[local]\nlr=2"),
    ("lines of Windows", WORKS, SMALL.replace("\n", "\r\n")),
    ("lines of old Macs", WORKS, SMALL.replace("\n", "\r")),
    ("byte order mark", WORKS, b"\xef\xbb\xbf" + SMALL.encode(), "wording"),
    ("UTF-16", REFUSED, SMALL.encode("utf-16")),
    ("Latin-1", REFUSED, 'run.folder="é"'.encode("latin1")),
    ("zeros", REFUSED, bytes(100)),
    ("noise", REFUSED, bytes(i * i % 251 for i in range(4096))),
    ("nothing", EITHER, ""),
    ("zero byte in the folder", REFUSED, SMALL + '[run]\nfolder="a\\u0000b"'),
    ("zero byte in a path", REFUSED, '[data]\nname="files"\npath="a\\u0000b"'),
    ("zero byte in a model's file", REFUSED, 'model={name="module",file="a\\u0000.py"}'),
    ("zero byte in a test path", REFUSED, 'data={name="files",path="x.toml",test_path="\\u0000"}'),
    ("folder of 300 characters", REFUSED, SMALL + f'[run]\nfolder="{"x" * 300}"', "long names"),
    ("folder of 2,500 levels", REFUSED, SMALL + f'[run]\nfolder="{"x/" * 2500}"', "long names"),
    ("folder in /proc", REFUSED, SMALL + '[run]\nfolder="/proc/unalike"'),
    ("folder is a device", REFUSED, SMALL + '[run]\nfolder="/dev/null"'),
    ("folder in a device", REFUSED, SMALL + '[run]\nfolder="/dev/null/x"'),
    ("folder of snow", WORKS, SMALL + '[run]\nfolder="ünï-☃-\U0001f600"'),
    ("folder with a line break", EITHER, SMALL + '[run]\nfolder="a\\nb"'),
    ("folder with markup", EITHER, SMALL + '[run]\nfolder="[red]x[/blue]"'),
    ("folder with an escape", EITHER, SMALL + '[run]\nfolder="a\\u001b[31mb"'),
    ("folder with an end of markup", EITHER, SMALL + '[run]\nfolder="z[/]"'),
    ("method of a path", REFUSED, 'method="../../x"'),
    ("method of underscores", REFUSED, 'method="__class__"'),
    ("method of 100,000 letters", REFUSED, f'method="{"x" * 100000}"', "wording"),
    ("method of markup", REFUSED, 'method="[/red]"'),
    ("method of a list", REFUSED, 'method=["fedavg"]'),
    ("method of a number", REFUSED, "method=3"),
    ("method named by a table", REFUSED, "[method]\nname={a=1}"),
    ("method of a date", REFUSED, "method=2020-01-01"),
    ("unknown section", REFUSED, "[nope]\na=1"),
    ("plus of text", REFUSED, 'plus="fedprox"'),
    ("plus itself", EITHER, SMALL + '[[plus]]\nname="fedavg"\n'),
    ("plus fifty times", EITHER, SMALL + '[[plus]]\nname="fedprox"\n' * 50),
    ("a ring with a server's method", EITHER, SMALL + 'method="scaffold"\ntopology="ring"'),
    ("more attackers than clients", REFUSED, 'rounds=1\n[attack]\nname="none"\nshare=2'),
    ("99 of 3 clients", EITHER, SMALL + "[participation]\nnumber=99"),
    ("a fraction not a number", REFUSED, "[participation]\nfraction=nan"),
    ("hardly an epoch", EITHER, SMALL + "[local]\nepochs=1e-300"),
    ("too many epochs", REFUSED, SMALL + "[local]\nepochs=10001"),
    ("nothing to train on", REFUSED, "[split]\nvalidation=0.5\ntest=0.5"),
    ("hardly a row to train on", EITHER, SMALL + "[split]\nvalidation=0.0\ntest=0.999999"),
    ("all clients new", REFUSED, SMALL + "[split]\nnew_clients=3"),
    ("23 digits of new clients", REFUSED, SMALL + f"[split]\nnew_clients={'9' * 23}"),
    ("unknown device", REFUSED, SMALL + '[engine]\ndevice="tpu"'),
    ("a GPU that is not there", REFUSED, SMALL + '[engine]\ndevice="cuda:99"'),
    ("a device without numbers", REFUSED, SMALL + '[engine]\ndevice="meta"'),
    ("a device with a zero byte", REFUSED, SMALL + '[engine]\ndevice="cuda:\\u0000"'),
    ("a negative GPU", REFUSED, SMALL + '[engine]\ndevice="cuda:-1"'),
    ("1,024 workers", EITHER, SMALL + '[engine]\nkind="sequential"\nworkers=1024'),
    ("an endless chunk", EITHER, SMALL + f'[engine]\nkind="vectorized"\nchunk={"9" * 19}'),
    ("a target not a number", REFUSED, "[evaluation]\ntarget=nan"),
    ("decay never", EITHER, SMALL + f'[local]\ndecay="exponential"\ndecay_every={"9" * 26}'),
    ("tracked twice", EITHER, SMALL + '[track]\nto=["tensorboard","tensorboard"]'),
    ("tracked elsewhere", EITHER, SMALL + '[track]\nto=["wandb"]'),
    ("checkpoints never", EITHER, SMALL + f"[run]\ncheckpoint_every={2**90}"),
]

OVERRIDES: list[tuple[str, str, list[str]] | tuple[str, str, list[str], str]] = [
    ("no sign", REFUSED, ["rounds"]),
    ("a folder that is no text", WORKS, ["run.folder=\udce9"], "odd output"),
    ("empty", REFUSED, [""]),
    ("a sign alone", REFUSED, ["="]),
    ("no key", REFUSED, ["=5"]),
    ("dots", REFUSED, ["..=3"]),
    ("two dots", REFUSED, ["a..b=1"]),
    ("a place in superscript", REFUSED, ["plus.².lr=1"], "odd digits"),
    ("a place in Arabic digits", REFUSED, ["plus.٣.lr=1"]),
    ("a negative place", REFUSED, ["plus.-1.lr=1"]),
    ("a list as a table", REFUSED, ["plus.lr=1"]),
    ("a number as a table", REFUSED, ["rounds.x=1"]),
    ("5,000 digits", REFUSED, ["rounds=" + "9" * 5000], "absurd text"),
    ("3,000 brackets", REFUSED, ["rounds=" + "[" * 3000 + "]" * 3000], "absurd text"),
    ("a second line", REFUSED, ["rounds=1\nseed=5"], "injected line"),
    ("a remark", EITHER, ["rounds=1 # x"]),
    ("an open text", REFUSED, ['method="""']),
    ("a wrong table", REFUSED, ['method={name="fedprox",mu="x"}']),
    ("name of a name", REFUSED, ["method.name.name=x"]),
    ("name of a number", REFUSED, ["seed.name=3"]),
    ("a number as a list", REFUSED, ["plus=1"]),
    ("a place in an empty list", REFUSED, ["shift.0.name=noise"]),
    ("an umlaut", REFUSED, ["röunds=3"]),
    ("a zero byte", REFUSED, ['run.folder="\\u0000"']),
    ("a number as a name", REFUSED, ["method.name=1"]),
    ("nothing", REFUSED, ["partition="]),
    ("true rounds", REFUSED, ["rounds=true"]),
    ("a key of 3,000 parts", REFUSED, [".".join(["method"] * 3000) + "=1"], "absurd text"),
    ("a path as a table", REFUSED, ["data.path.x=1"]),
    ("a section as a number", REFUSED, ["local=3"]),
    ("a last dot", REFUSED, ["local.lr.=3"]),
    ("a list of numbers", REFUSED, ["plus=[1]"]),
    ("a list in a list", REFUSED, ['plus=[["fedprox"]]', "plus.0.0.lr=1"]),
]

COMMANDS: list[tuple[str, str, list[str]] | tuple[str, str, list[str], str]] = [
    ("--set without anything", EITHER, ["run", "ok.toml", "--set"]),
    ("an unknown option", REFUSED, ["run", "ok.toml", "--foo"]),
    ("run nothing", REFUSED, ["run"]),
    ("an unknown command", REFUSED, ["rum"]),
    ("an unknown engine", REFUSED, ["run", "ok.toml", "--engine", "quantum"]),
    ("a file that is not there", REFUSED, ["run", "nope.toml"]),
    ("a file without a name", REFUSED, ["run", ""]),
    ("a name of 5,000 characters", REFUSED, ["run", "x" * 5000 + ".toml"]),
    ("a name that is no text", REFUSED, ["run", "\udcff.toml"]),
    ("a device as a file", EITHER, ["run", "/dev/null"]),
    ("another file", REFUSED, ["run", "/etc/passwd"]),
    ("list a path", REFUSED, ["list", "../../x"]),
    ("list markup", REFUSED, ["list", "[/red]"]),
    ("a skew not a number", EITHER, ["skew", "--target", "nan"]),
    ("a skew infinite", EITHER, ["skew", "--target", "inf"]),
    ("a skew negative", EITHER, ["skew", "--target", "-1"]),
    ("a skew of no clients", REFUSED, ["skew", "--target", "1", "--clients", "0"]),
    ("a skew of one class", EITHER, ["skew", "--target", "1", "--classes", "1"]),
    ("a skew of -5 classes", REFUSED, ["skew", "--target", "1", "--classes", "-5"]),
    (
        "a skew of a billion clients",
        REFUSED,
        ["skew", "--target", "1", "--clients", "1000000000"],
        "absurd sizes",
    ),
    ("a plot of no kind", REFUSED, ["skew", "ok.toml", "--plot", "a.xyz"]),
    ("a plot in /proc", REFUSED, ["skew", "ok.toml", "--plot", "/proc/a.svg"]),
    ("report nothing", REFUSED, ["report", "nope"]),
    ("a port beyond all", REFUSED, ["watch", "runs", "--port", "99999"]),
    ("a preset misspelt", REFUSED, ["compare", "quickstrat"]),
    ("a preset of a path", REFUSED, ["compare", "../../etc/passwd"]),
    ("minus one process", REFUSED, ["compare", "quickstart", "--processes", "-1"]),
    ("minutes not a number", REFUSED, ["advise", "ok.toml", "--minutes", "nan"]),
    ("minutes infinite", REFUSED, ["advise", "ok.toml", "--minutes", "inf"], "absurd sizes"),
]


def _folder(place: Path) -> None:
    (place / "x.toml").mkdir()


def _links(place: Path) -> None:
    (place / "x.toml").symlink_to("y.toml")
    (place / "y.toml").symlink_to("x.toml")


def _pipe(place: Path) -> None:
    os.mkfifo(place / "x.toml")


SOON = Limits(seconds=60)
CASES = [
    *(
        Case(KIND, name, want, ["run", "x.toml"], {"x.toml": text}, *cause, limits=SOON)
        for name, want, text, *cause in TEXTS
    ),
    *(
        Case("override", name, want, ["run", "ok.toml", "--set", *items], {"ok.toml": SMALL}, *c)
        for name, want, items, *c in OVERRIDES
    ),
    *(
        Case("command", name, want, arguments, {"ok.toml": SMALL}, *cause, limits=SOON)
        for name, want, arguments, *cause in COMMANDS
    ),
    Case(KIND, "a folder as a file", REFUSED, ["run", "x.toml"], prepare=_folder),
    Case(KIND, "links in a circle", REFUSED, ["run", "x.toml"], prepare=_links),
    Case(
        KIND,
        "a pipe that nobody writes to",
        REFUSED,
        ["run", "x.toml"],
        cause="absurd sizes",
        prepare=_pipe,
        limits=Limits(seconds=20),
    ),
]
