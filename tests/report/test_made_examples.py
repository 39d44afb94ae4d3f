"""Examples that a method has made are in the report, as the picture in the run's folder."""

import base64
from pathlib import Path

from unalike.report.html.page import write_report
from unalike.run.configuration.config import parse
from unalike.run.execute import start


def test_made_examples_are_seen(tmp_path: Path) -> None:
    method = {"name": "fedcvae", "per_class": 3, "judge_epochs": 1, "latent": 4}
    config = {
        "rounds": 1,
        "partition": {"name": "iid", "clients": 3},
        "method": method,
        "evaluation": {"fidelity": True},
        "run": {"folder": str(tmp_path / "run")},
    }
    folder = start(parse(config))
    page = write_report(folder).read_text(encoding="utf-8")
    picture = base64.b64encode((folder / "synthetic.png").read_bytes()).decode()
    assert f'<img src="data:image/png;base64,{picture}"' in page
    assert "Generated examples: fedcvae" in page
    assert "at a distance (FID) of" in page


def test_others_have_no_such_picture(tmp_path: Path) -> None:
    config = {
        "rounds": 1,
        "partition": {"name": "iid", "clients": 3},
        "run": {"folder": str(tmp_path / "run")},
    }
    page = write_report(start(parse(config))).read_text(encoding="utf-8")
    assert "Generated examples" not in page
