"""The command line for people: help, lists, skew, and what a run shows."""

import inspect
import os
import pty
import re
import resource
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Unalike
from interrupted import SMALL, raw, write_toml
from rich.console import Console

from unalike.cli.main import app
from unalike.cli.outcome import conclude
from unalike.cli.view import View
from unalike.compare.presets import names, text
from unalike.report.grouping import grouping
from unalike.report.outcome import scores
from unalike.run.configuration.config import parse, tables
from unalike.run.execute import start
from unalike.run.folder.records import read_json
from unalike.settings import describe

Call = Callable[..., str]


@pytest.fixture
def call(unalike: Unalike, monkeypatch: pytest.MonkeyPatch) -> Call:
    """``unalike ARGUMENTS`` in this process: what it prints, if all goes well."""

    def called(*arguments: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, said = unalike(*arguments)
        assert (code, said) == (0, "")
        return out

    return called


def assert_readable(text: str, columns: int) -> None:
    """Nothing is cut off and nothing sticks out, but for paths, which must not be broken."""
    assert "…" not in text
    assert all(len(line) <= columns or "/" in line for line in text.splitlines()), text


class TestHelp:
    @pytest.mark.parametrize("name", [name for name in app if not name.startswith("-")])
    def test_its_examples_can_be_copied(self, name: str):
        """No line of a command or of TOML is broken by a terminal of 80 columns."""
        text = inspect.getdoc(app[name].default_command) or ""
        for block in re.findall(r"```\w+\n(.*?)```", text, re.DOTALL):
            assert max(map(len, block.splitlines())) <= 78, block

    def test_it_is_quick_and_loads_nothing_heavy(self):
        code = (
            "import sys; sys.argv = ['unalike', '--help']\n"
            "from unalike.cli.main import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "heavy = {'torch', 'numpy', 'sklearn', 'altair', 'polars', 'scipy', 'pydantic'}\n"
            "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
        )
        seconds = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert min(seconds) < 0.5

    def test_importing_the_package_is_light(self):
        code = "import sys, unalike; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_it_names_every_command_and_teaches_by_example(self, call: Call):
        shown = call("--help")
        for name in ("run", "resume", "compare", "skew", "list"):
            assert name in app
            assert f"│ {name} " in shown
        assert "unalike run first.toml" in shown
        assert_readable(shown, 80)

    @pytest.mark.parametrize("name", ["run", "resume", "skew", "list"])
    def test_every_command_has_an_example(self, name: str, call: Call):
        shown = call(name, "--help")
        assert f" unalike {name} " in shown
        assert_readable(shown, 80)

    def test_the_examples_of_run_can_be_run(self, call: Call, tmp_path: Path):
        shown = call("run", "--help")
        block = shown[shown.index("rounds = 50") : shown.index("unalike run first.toml")]
        (tmp_path / "first.toml").write_text("\n".join(li.strip() for li in block.splitlines()))
        from unalike.run.configuration.config import read_config

        config = read_config(tmp_path / "first.toml", ["method.name=scaffold", "seed=1"])
        assert (config.method.name, config.partition.settings["alpha"]) == ("scaffold", 0.3)
        config = read_config(tmp_path / "first.toml", ['plus=["fedadam"]', "plus.0.lr=0.01"])
        assert config.plus[0].settings["lr"] == 0.01

    def test_the_version(self, call: Call):
        from importlib.metadata import version

        assert call("--version").strip() == version("unalike")


class TestList:
    def test_everything_with_one_line(self, call: Call):
        shown = call("list")
        for table in tables().values():
            for name in table:
                assert f" {name} " in shown
        assert_readable(shown, 80)

    @pytest.mark.parametrize(
        "name", sorted({n for table in tables().values() for n in table}), ids=str
    )
    def test_one_of_them_with_all_its_settings(self, name: str, call: Call):
        shown = call("list", name)
        assert_readable(shown, 80)
        for kind, table in tables().items():
            if name in table and kind != "plus":
                for setting in describe(table[name]):
                    assert f"│ {setting.name} " in shown
                    assert setting.allowed.split()[0] in shown
                if not table[name].model_fields:
                    assert "no settings" in shown

    def test_one_kind(self, call: Call):
        shown = call("list", "models")
        assert " mlp " in shown
        assert " dirichlet " not in shown
        assert_readable(shown, 80)

    def test_presets_and_the_file_of_one(self, call: Call):
        shown = call("list", "presets")
        assert all(f"{name} " in shown for name in names())
        assert_readable(shown, 80)
        assert text("superfed-mnist") in call("list", "superfed-mnist")

    def test_ranges_and_choices_are_shown(self, call: Call):
        shown = call("list", "dirichlet", columns=200)
        assert re.search(r"│ alpha +│ number above 0, up to 1,000,000,000,000 +│ 0\.5 ", shown)
        assert re.search(r'│ per +│ "class" or "client" +│ "class" ', shown)
        assert re.search(r"│ clients +│ whole number >= 1 +│ 10 ", shown)

    def test_the_paper_is_named(self, call: Call):
        assert "paper: Li et al. 2020" in call("list", "fedprox")

    def test_the_sections_of_a_file(self, call: Call):
        shown = call("list", "settings")
        for section in ("data", "split", "local", "participation", "faults", "evaluation", "run"):
            assert f"[{section}]  " in shown
        assert "[[plus]]  " in shown
        assert re.search(r"│ lr +│ number > 0 +│ 0\.05 ", shown)
        assert_readable(shown, 80)


def test_brackets_in_a_path_are_shown(call: Call, tmp_path: Path, monkeypatch: Any):
    """Rich would take [bold] for a style and [/x] for its end."""
    monkeypatch.chdir(tmp_path)
    write_toml(tmp_path / "c.toml", {**SMALL, "rounds": 1})
    assert "files: o[/x]" in call("run", "c.toml", "--set", "run.folder=o[/x]")
    assert "report: o[/x]/report.html" in call("report", "o[/x]")
    assert "drawn to [bold]p.svg" in call("skew", "c.toml", "--plot", "[bold]p.svg")


class TestSkew:
    def test_of_a_file_with_pictures(self, call: Call, tmp_path: Path, monkeypatch: Any):
        monkeypatch.chdir(tmp_path)
        file = write_toml(tmp_path / "c.toml", SMALL)
        shown = call("skew", str(file), "--set", "partition.alpha=0.1", "--plot", "p.svg")
        assert "Skew of digits, dirichlet: training examples" in shown
        assert "drawn to p.svg and p-spread.svg" in shown
        assert (tmp_path / "p.svg").read_text().startswith("<svg")
        assert (tmp_path / "p-spread.svg").read_text().startswith("<svg")
        assert_readable(shown, 80)

    def test_without_a_file(self, call: Call):
        even = call("skew", "--set", "partition.name=iid", "partition.clients=4")
        skewed = call("skew", "--set", "partition.alpha=0.05", "partition.clients=4")

        def emd(shown: str) -> float:
            found = re.search(r"^EMD +([\d.]+) ", shown, re.M)
            assert found
            return float(found[1])

        assert emd(even) < 0.2 < emd(skewed)

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (["method.name=phase_shift", "method.phases=3"], "3 phases: mean EMD"),
            (["topology.name=clusters", "topology.servers=2"], "2 clusters: mean EMD"),
            (["topology.name=ring"], "6 neighbourhoods: mean EMD"),
        ],
    )
    def test_groups_are_measured_as_a_run_measures_them(
        self, call: Call, tmp_path: Path, settings: list[str], words: str
    ):
        partition = {"name": "dirichlet", "clients": 6}
        config = {"rounds": 1, "model": "logistic", "partition": partition}
        file = str(write_toml(tmp_path / "c.toml", config))
        (said,) = re.findall(rf"^{words}.*$", call("skew", file, "--set", *settings), re.M)
        call("run", file, "--set", *settings, f"run.folder={tmp_path / 'run'}")
        assert grouping(read_json(tmp_path / "run" / "skew.json")) == [said]
        assert "from all data" not in call("skew", file)

    def test_settings_for_a_target(self, call: Call):
        shown = call("skew", "--target", "1.4", "--clients", "20", "--classes", "10")
        assert re.search(r"limit_label +t = 1 +f = 0\.777778", shown)  # 1.4 / (2 (1 - 1/10))
        assert re.search(r"q_sampler +q = 0\.8\s", shown)  # 1/10 + 1.4/2
        assert_readable(shown.rpartition("for example")[0], 80)

    @pytest.mark.parametrize("target", [1.0, 1.6])
    def test_the_settings_it_names_reach_the_target(self, call: Call, target: float):
        shown = call("skew", "--target", str(target), "--clients", "10", "--classes", "10")
        found = re.search(r"--set (.*)", shown)
        assert found
        again = call("skew", "--set", *found[1].split())
        reached = re.search(r"^EMD +([\d.]+) ", again, re.M)
        assert reached
        assert float(reached[1]) == pytest.approx(target, abs=0.05)
        assert re.search(rf"EMD: asked for {target:.3f}, got {reached[1]}", again)

    def test_what_nobody_holds_is_told(self, call: Call):
        shown = call("skew", "--set", "partition.name=mixed")
        assert re.search(r"clients with alpha = 50: asked for 0\.107, got 0\.\d{3}\n", shown)
        assert re.search(r"clients with alpha = 0\.5: asked for 0\.916, got \d\.\d{3}\n", shown)
        assert re.search(r"\d{3} examples are held by no client", shown)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with new clients and a target, whose last and selected rounds differ."""
    changes = {
        "split": {"new_clients": 1},
        "participation": {},
        "faults": {"garbage": 0.2},
        "evaluation": {"every": 1, "target": 0.2, "select": "loss"},
        "rounds": 4,
        "local": {"lr": 0.5, "decay": "exponential", "decay_rate": 0.5},
    }
    return start(parse(raw(tmp_path_factory.mktemp("finished") / "run", changes)))


class TestOutcome:
    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_tables_fit(self, finished: Path, columns: int):
        console = Console(width=columns, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
        with console.file:
            conclude(console, finished)
        shown = console.export_text()
        assert_readable(shown, columns)
        for head in ("accuracy %", "std", "worst 10 %", "Gini", "loss", "F1 %", "AUROC %", "ECE"):
            assert head in shown
        for section in ("local", "global", "new"):
            assert re.search(rf"^{section} +\d+\.\d\d ", shown, re.MULTILINE)
        assert re.search(r"^global +\d+\.\d\d +— +— +— ", shown, re.MULTILINE)
        assert "selected on validation loss, mean over clients" in shown
        assert "accuracy 20.00 % on global test data was reached in round" in shown
        assert f"files: {finished}" in shown

    def outcome(self, finished: Path, tmp_path: Path, **changes: Any) -> str:
        import json

        summary = json.loads((finished / "summary.json").read_text()) | changes
        (tmp_path / "summary.json").write_text(json.dumps(summary))
        with open(os.devnull, "w") as nowhere:
            console = Console(width=80, record=True, file=nowhere)
            conclude(console, tmp_path)
        return console.export_text()

    def test_one_table_if_the_last_round_was_selected(self, finished: Path, tmp_path: Path):
        import json

        last = json.loads((finished / "summary.json").read_text())["last"]
        shown = self.outcome(finished, tmp_path, selected=last)
        assert "Round 4, the last and selected" in shown
        assert shown.count("worst 10 %") == 1
        other = self.outcome(finished, tmp_path, selected={**last, "round": 2})
        assert "Round 4, the last\n" in re.sub(" +\n", "\n", other)
        assert "Round 2, selected\n" in re.sub(" +\n", "\n", other)

    def test_no_selection_is_said(self, finished: Path, tmp_path: Path):
        assert "no round was selected" in self.outcome(finished, tmp_path, selected=None)

    def test_a_target_out_of_reach_is_said(self, finished: Path, tmp_path: Path):
        target = {"accuracy": 0.99, "section": "global", "round": None, "bytes": None}
        shown = self.outcome(finished, tmp_path, target=target)
        assert "accuracy 99.00 % on global test data was not reached" in shown


class TestView:
    def test_a_log_gets_few_plain_lines(self, call: Call, tmp_path: Path):
        file = write_toml(tmp_path / "c.toml", raw(tmp_path / "run", {"faults": {"garbage": 0.5}}))
        shown = call("run", str(file))
        assert "\x1b" not in shown
        assert "fedavg on digits: 6 clients, 6 rounds, mlp, vectorized on cpu" in shown
        assert "\nread 1,797 examples, each 1 x 8 x 8, of 10 classes\n" in shown
        assert re.search(r"skew of dirichlet: EMD \d\.\d{3}", shown)
        assert "refused client" in shown
        lines = [line for line in shown.splitlines() if line.startswith("fedavg round")]
        assert lines[-1].startswith("fedavg round 6/6  accuracy %  local ")
        assert len(lines) <= 3
        assert_readable(shown, 80)

    def test_resuming_a_finished_run_shows_it_again(self, call: Call, finished: Path):
        before = (finished / "rounds.jsonl").read_bytes()
        shown = call("resume", str(finished))
        assert "all rounds were already done" in shown
        assert "refused client" not in shown  # that was told when it happened
        assert "Round 4" in shown
        assert (finished / "rounds.jsonl").read_bytes() == before

    def test_undefined_scores_are_dashes(self):
        metrics = {"local": {"accuracy": {"mean": None}}, "global": {"accuracy": {"mean": 0.5}}}
        assert scores({"metrics": metrics}) == "accuracy %  local —  global 50.00"
        assert scores({"metrics": {"local": {"loss": {"mean": 0.5}}}}) == "loss  local 0.5000"
        assert scores({"metrics": None}) == ""

    def test_a_terminal_gets_a_bar(self, tmp_path: Path):
        file = write_toml(tmp_path / "c.toml", raw(tmp_path / "run", {}))
        shown = terminal(["run", str(file)], tmp_path)
        assert re.search(r"━━━.*6/6", shown)
        assert "\x1b[?25l" in shown  # the cursor is hidden
        assert "\x1b[?25h" in shown  # and shown again
        assert "Round 6, the last" in shown
        assert "fedavg round" not in shown

    def test_a_view_that_never_began_can_end(self):
        with open(os.devnull, "w") as nowhere:
            View(Console(file=nowhere)).end()


def terminal(arguments: list[str], cwd: Path) -> str:
    """What ``unalike`` writes to a terminal of eighty columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "unalike.cli.main", *arguments],
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=environment,
    ) as running:
        os.close(theirs)
        shown = b"".join(_read(ours, running))
        os.close(ours)
    assert running.returncode == 0, shown
    return shown.decode()


def _read(source: int, running: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([source], [], [], 0.1)
        try:
            got = os.read(source, 65536) if ready else b""
        except OSError:  # the other side is closed
            return
        yield got
        if not got and running.poll() is not None:
            return
