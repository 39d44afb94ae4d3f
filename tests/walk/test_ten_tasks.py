"""Ten things a newcomer does first, typed as he would type them, on data that no preset has.

python -m pytest -m slow tests/walk
"""

import os
import re
import signal
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import polars as pl
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how-to-own-method.md").read_text(encoding="utf-8")
Shell = Callable[..., str]


def environment() -> dict[str, str]:
    """With the commands of this environment in front, and the package that is tested."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "120", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Type a line; what it prints. A line that fails must say one sentence."""
    monkeypatch.chdir(tmp_path)

    def type_in(line: str, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=environment(), check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{line}\n{said}"
        assert "Traceback" not in said, said
        return said

    return type_in


def block(text: str, language: str, holding: str) -> str:
    """The fenced block of a page that holds some words."""
    found = re.findall(rf"^```{language}[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return next(one for one in found if holding in one)


def clinics(rows: int = 400) -> pl.DataFrame:
    """Visits to five clinics with seven columns; two visits of each patient."""
    draw = np.random.default_rng(11)
    patient = np.repeat(np.arange(rows // 2), 2)
    clinic = np.array(["Ahe", "Bös", "Cay", "Dun", "Elz"])[patient % 5]
    dose, weight = draw.gamma(2.0, 2.0, rows), draw.normal(70, 12, rows)
    ill = dose - 4 + (weight - 70) / 8 + draw.normal(0, 1, rows) > 0
    drug = draw.choice(["A", "B", "none"], rows)
    return pl.DataFrame(
        {
            "visit": np.arange(rows) + 1,
            "patient": [f"P{p:03}" for p in patient],
            "clinic": clinic,
            "dose": dose.round(2),
            "weight": weight.round(1),
            "drug": drug,
            "outcome": np.where(ill, "worse", "better"),
        }
    )


def toml(path: str, **data: str) -> str:
    settings = "".join(f"{k} = {v}\n" for k, v in data.items())
    run = 'rounds = 4\npartition = "natural"\nmodel = "logistic"\n'
    return f'{run}\n[data]\nname = "files"\npath = "{path}"\n{settings}'


def test_1_the_readme(shell: Shell) -> None:
    """The demo, smaller; one's own table; predictions; Python."""
    said = shell("unalike compare quickstart --set rounds=2 compare.seeds=2")
    assert "FedProx" in said
    assert Path("runs/compare-quickstart/report.html").exists()
    head, *rows = block(README, "text", "hospital,age").split()
    Path("patients.csv").write_text("\n".join([head, *rows * 20]) + "\n")
    Path("hospitals.toml").write_text(block(README, "toml", "patients.csv"))
    shell("unalike run hospitals.toml")
    (folder,) = Path("runs").glob("fedprox-*")
    Path("new.csv").write_text("age,sex,pressure\n70,M,130\n30,F,118\n")
    line = next(x for x in README.splitlines() if x.startswith("unalike predict"))
    assert str(folder) in line, "the README names another folder"
    assert "2 rows predicted by the model of client north" in shell(line)
    shell(f"unalike resume {folder}")
    shell(f"unalike report {folder}")
    shell(f"unalike verify {folder}")
    Path("first.py").write_text(block(README, "python", "import unalike"))
    assert "mean" in shell("python first.py")


def test_2_own_arrays(shell: Shell) -> None:
    """Small colour images of a strange shape, by site."""
    draw = np.random.default_rng(0)
    y, site = draw.integers(0, 5, 300), draw.choice(["left", "right", "top"], 300)
    x = draw.integers(0, 120, (300, 20, 12, 3), dtype=np.uint8)
    x[np.arange(300), 4 * (y % 5)] += 120
    np.savez("leaves.npz", x=x, y=y, site=site)
    np.savez("new.npz", x=x[:7], site=site[:7])
    Path("c.toml").write_text(toml("leaves.npz", client='"site"').replace("logistic", "mlp"))
    said = shell("unalike run c.toml --set local.lr=0.1 rounds=8")
    assert "each 3 x 20 x 12, of 5 classes" in said
    (folder,) = Path("runs").iterdir()
    shell(f"unalike predict {folder} new.npz --client left --probabilities --out p.csv")
    found = pl.read_csv("p.csv")
    assert len(found) == 7
    assert found.select(pl.selectors.float()).width == 5, "a probability for each class"
    shell(f"unalike export {folder} --to torch --out out")
    assert Path("out/features.json").exists()
    assert "EMD" in shell("unalike skew c.toml --plot partition.svg")


def test_3_own_audio(shell: Shell) -> None:
    """Recordings of four speakers, one pitch each: WAV files become arrays, speakers clients."""
    draw, rate = np.random.default_rng(1), 4000
    for speaker, pitch in {"ada": 180, "ben": 110, "cy": 240, "dee": 200}.items():
        for word, rise in {"yes": 1.6, "no": 0.6}.items():
            for take in range(20):
                t = np.arange(rate // 2) / rate
                sound = np.sin(2 * np.pi * pitch * t * (1 + (rise - 1) * t))
                sound = 0.6 * sound + 0.05 * draw.normal(size=len(t))
                place = Path("wav") / speaker / f"{word}-{take}.wav"
                place.parent.mkdir(parents=True, exist_ok=True)
                with wave.open(str(place), "wb") as file:
                    file.setnchannels(1)
                    file.setsampwidth(2)
                    file.setframerate(rate)
                    file.writeframes((32767 * np.clip(sound, -1, 1)).astype("<i2").tobytes())
    Path("read.py").write_text(
        "import wave\n"
        "from pathlib import Path\n\n"
        "import numpy as np\n\n"
        "files = sorted(Path('wav').glob('*/*.wav'))\n"
        "rows = []\n"
        "for path in files:\n"
        "    with wave.open(str(path)) as file:\n"
        "        rows.append(np.frombuffer(file.readframes(file.getnframes()), '<i2') / 32768)\n"
        "words = np.array([path.name.split('-')[0] for path in files])\n"
        "speakers = np.array([path.parent.name for path in files])\n"
        "np.savez('words.npz', x=np.stack(rows)[:, None].astype('float32'), y=words,\n"
        "         speaker=speakers)\n"
    )
    shell("python read.py")
    Path("c.toml").write_text(toml("words.npz", client='"speaker"').replace("logistic", "mlp"))
    said = shell("unalike run c.toml")
    assert "of 2 classes" in said
    shell("unalike skew c.toml")
    (folder,) = Path("runs").iterdir()
    assert "yes" in shell(f"unalike predict {folder} words.npz --own")


FIX = re.compile(r"set (data|split|partition)\.(\w+) = ('[^']*'|\[[^\]]*\])")


def test_4_a_messy_table(shell: Shell) -> None:
    """Whoever does what each sentence says arrives at a run."""
    table = clinics().with_columns(
        pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise("dose").alias("dose"),
        pl.when(pl.int_range(pl.len()) % 11 == 0)
        .then(pl.lit("unknown"))
        .otherwise(pl.col("weight").cast(pl.String))
        .alias("weight"),
    )
    Path("visits.csv").write_bytes(table.write_csv(separator=";").encode("latin-1"))
    data = {"label": "'outcome'", "client": "'clinic'"}
    for _ in range(8):
        Path("c.toml").write_text(toml("visits.csv", **data))
        done = subprocess.run(
            ["unalike", "run", "c.toml"], capture_output=True, text=True, env=environment()
        )
        assert "Traceback" not in done.stderr
        fixes = {name: value for _, name, value in FIX.findall(done.stderr)}
        if "data.encoding" in done.stderr and "encoding" not in data:
            fixes["encoding"] = "'latin-1'"
        if done.returncode == 0 and not fixes.items() - data.items():
            break
        assert fixes.items() - data.items(), done.stderr
        data |= fixes
    else:
        pytest.fail(f"still not read: {data}")
    assert data["separator"] == "';'"
    assert data["encoding"] == "'latin-1'"
    assert data["missing"] == "'impute'"
    assert data["na_values"] == "['unknown']"
    data["together"] = "'patient'"
    Path("c.toml").write_text(toml("visits.csv", **data))
    shell("unalike run c.toml")


def test_5_advice(shell: Shell) -> None:
    clinics().drop("visit", "patient").write_csv("visits.csv")
    said = shell(
        "unalike advise visits.csv --label outcome --client clinic --minutes 0.3 --seeds 2"
    )
    assert "logistic" in said or "mlp" in said, "the model is named"
    assert Path("runs/advise-visits").is_dir()


def test_6_a_search(shell: Shell) -> None:
    clinics().drop("visit", "patient").write_csv("visits.csv")
    text = toml("visits.csv", label="'outcome'", client="'clinic'")
    search = '[tune]\ntrials = 3\nsearch = { "local.lr" = [0.01, 1.0, "log"] }\n'
    Path("c.toml").write_text(f"{text}\n{search}")
    said = shell("unalike tune c.toml")
    assert "local.lr" in said
    assert shell("unalike tune c.toml"), "the same command again continues"


def test_7_watching(shell: Shell) -> None:
    """The page of runs that continue, in a browser."""
    clinics().drop("visit", "patient").write_csv("visits.csv")
    Path("c.toml").write_text(toml("visits.csv", label="'outcome'", client="'clinic'"))
    shell("unalike run c.toml")
    watching = subprocess.Popen(
        ["unalike", "watch", "runs", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert watching.stdout is not None
        lines: list[str] = []
        while not (found := re.search(r"http://\S+", "".join(lines))):
            lines.append(watching.stdout.readline())
            assert lines[-1], lines
        page = urlopen(found[0].rstrip(".,"), timeout=60).read().decode()
        assert "<html" in page
        assert "fedavg" in page.lower()
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
    assert watching.returncode in (0, 130)


def test_8_an_own_method(shell: Shell) -> None:
    """From the page: check it, run it, compare it."""
    Path("my_ditto.py").write_text(block(PAGE, "python", "class MyDitto"))
    assert "BROKEN" not in shell("unalike check my_ditto.py")
    clinics().drop("visit", "patient").write_csv("visits.csv")
    own = "{ name = 'own', file = 'my_ditto.py', attribute = 'MyDitto', label = 'mine' }"
    compared = f"[compare]\nseeds = 2\nmethods = ['fedavg', {own}]\n"
    text = toml("visits.csv", label="'outcome'", client="'clinic'")
    Path("c.toml").write_text(f"{text}\n{compared}")
    assert "mine" in shell("unalike compare c.toml")
    Path("my_ditto.py").write_text("class MyDitto:\n    pass\n")
    said = shell("unalike run c.toml --set compare={} method.name=own", code=2)
    assert said.startswith("error: ")


SCRIPT = """
import pandas as pd
import torch

import unalike


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(5, 8)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def main():
    table = pd.read_csv("visits.csv")
    result = unalike.train(table, Net(), "fedrep", label="outcome", client="clinic", rounds=4)
    print(result)
    print(result.trained().personal("Dun").predict(table)[:3])
    folder = result.save()
    again = unalike.load(folder, module=Net())
    dun = result.trained().personal("Dun")
    print((again.personal("Dun").predict(table) == dun.predict(table)).all())
    found = unalike.compare(table, "logistic", ["fedavg", "fedprox"], label="outcome",
                            client="clinic", seeds=2, rounds=2)
    print(found)
    print(unalike.report(found))
    print(unalike.report({"Net": result}, "net.html"))


if __name__ == "__main__":
    main()
"""


def test_9_python(shell: Shell) -> None:
    clinics().drop("visit", "patient").write_csv("visits.csv")
    Path("mine.py").write_text(SCRIPT)
    said = shell("python -W error::DeprecationWarning mine.py")
    assert "fedrep, 5 clients" in said
    assert "True" in said
    assert Path("net.html").exists()


def test_10_a_notebook(shell: Shell) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    clinics().drop("visit", "patient").write_csv("visits.csv")
    new = nbformat.v4
    cells = [
        "import pandas as pd\nimport unalike\n\ntable = pd.read_csv('visits.csv')",
        "named = {'label': 'outcome', 'client': 'clinic'}\n"
        "unalike.train(table, 'mlp', 'lg_fedavg', **named)",
        "unalike.train(table, 'mlp', 'fedprx', **named)",
    ]
    made = new.new_notebook(cells=[new.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(made, timeout=300, allow_errors=True, kernel_name="python3")
    client.execute()
    bar, shown = made.cells[1].outputs
    assert "round 20 of 20" in bar["data"]["text/html"]
    assert shown["data"]["text/html"].count("<svg") == 2
    (failed,) = made.cells[2].outputs
    assert failed["evalue"] == "unknown method 'fedprx': did you mean 'fedprox'?"
