"""What a method has made beside the model, as files of the run folder."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from unalike.algorithms.fedevg import FedEvg
from unalike.run.configuration.config import parse
from unalike.run.execute import resume, start
from unalike.run.experiment.build import experiment
from unalike.run.folder.products import FEW, frame, grid, kept, moving, png

RAW: dict[str, Any] = {
    "rounds": 2,
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 3},
    "model": {"name": "logistic"},
    "local": {"epochs": 0.2, "batch_size": 16},
    "method": {"name": "fedevg", "per_class": 2, "judge_epochs": 1},
}


def test_the_synthetic_set_is_in_the_folder(tmp_path: Path) -> None:
    """As the server has it after the last round, and the same bytes if the end comes again."""
    made = experiment(parse(RAW))
    state = made.loop.begin(made.w)
    for t in range(2):
        state, _ = made.loop.advance(state, t)
    folder = start(parse({**RAW, "run": {"folder": str(tmp_path / "a")}}))
    with np.load(folder / "synthetic.npz") as found:
        assert found["y"].tolist() == [c for c in range(10) for _ in range(2)]
        assert np.array_equal(found["x"], state.servers[0].x.numpy())
    before = {p.name: p.read_bytes() for p in folder.glob("synthetic.*")}
    assert set(before) == {"synthetic.npz", "synthetic.png"}
    resume(folder)
    assert {p.name: p.read_bytes() for p in folder.glob("synthetic.*")} == before


def test_how_it_came_about_moves(tmp_path: Path) -> None:
    """A frame for each evaluated round, read by another program; the last is the end."""
    folder = start(parse({**RAW, "rounds": 3, "run": {"folder": str(tmp_path / "a")}}))
    with Image.open(folder / "synthetic-moving.png") as film:
        assert film.n_frames == 3  # type: ignore[attr-defined]
        film.seek(2)
        end, still = np.asarray(film), np.asarray(Image.open(folder / "synthetic.png"))
        assert np.array_equal(end[: len(still)], still)
        assert (end[len(still) :] == 90).all()  # the bar is full
        film.seek(0)
        assert not np.array_equal(np.asarray(film)[: len(still)], still)


def test_a_film_of_pictures_by_hand() -> None:
    """Two black images become white; the bar grows from a half to the whole."""
    labels = torch.tensor([0, 0])
    frames = [
        frame({"x": torch.full((2, 3, 24, 24), v), "y": labels}, over)
        for v, over in ((0.0, 0.5), (1.0, 1.0))
    ]
    film = Image.open(io.BytesIO(moving(frames)))
    first = np.asarray(film.convert("RGB"))
    assert (first[2:50, 2:50] == 0).all()
    film.seek(1)
    second = np.asarray(film.convert("RGB"))
    assert (second[:-6] == 255).all()
    assert (first[-1] == 90).mean() == 0.5
    assert frame({"x": torch.zeros(2, 5), "y": labels}, 1.0) == ""
    many = torch.zeros(50, 1, 48, 48), torch.zeros(50, dtype=torch.long)
    width = Image.open(
        io.BytesIO(moving([frame(dict(zip("xy", many, strict=True)), 1.0)] * 2))
    ).width
    assert width == FEW * 50 + 2


def test_other_methods_make_nothing(tmp_path: Path) -> None:
    raw = {**RAW, "method": {"name": "fedavg"}, "run": {"folder": str(tmp_path / "a")}}
    assert not list(start(parse(raw)).glob("synthetic*"))


def test_a_picture_is_what_another_program_reads() -> None:
    rng = np.random.default_rng(0)
    for channels in (1, 3):
        image = rng.integers(0, 256, (5, 7, channels), dtype=np.uint8)
        read = np.asarray(Image.open(io.BytesIO(png(image))))
        assert np.array_equal(read.reshape(5, 7, channels), image)


def test_a_row_for_each_class() -> None:
    """Three images of 24 x 24, twice as large, two white pixels around; 0 is black, 1 white."""
    x = np.zeros((3, 1, 24, 24))
    x[1], x[2] = 1.0, 0.4
    sheet = grid(x, np.array([4, 7, 7]))
    assert sheet.shape == (2 * 50 + 2, 2 * 50 + 2, 1)
    assert sheet[10, 10, 0] == 0
    assert sheet[10, 60, 0] == 255  # class 4 has a single image
    assert sheet[60, 10, 0] == 255
    assert sheet[60, 60, 0] == 102
    wide = grid(np.array([-1.0, 3.0]).reshape(2, 1, 1, 1), np.array([0, 0]))
    assert (wide[10, 10, 0], wide[10, 60, 0]) == (0, 255)


def test_what_is_not_an_image_is_not_drawn() -> None:
    assert list(kept("rows", {"x": torch.zeros(4, 6), "y": torch.arange(4)})) == ["rows.npz"]


def test_clients_are_judged_by_the_classifiers_they_train() -> None:
    """The division by the spectral norm included, though the judging network has none."""
    raw = {
        **RAW,
        "partition": {"name": "shards", "clients": 3},
        "model": {"name": "resnet10", "width": 4, "spectral": True},
    }
    raw["method"] = {**RAW["method"], "judge": "own"}
    made = experiment(parse(raw))
    evg = made.recipe.algorithm
    assert isinstance(evg, FedEvg)
    state, _ = made.loop.advance(made.loop.begin(made.w), 0)
    found = made.evaluator(state).clients["local"]["accuracy"]
    kept, examples = made.simulation.examiner.kept(torch.arange(3)), made.federation.examples
    own = made.simulation.examiner.own["local"]
    for i in range(3):
        w = {name: v[i] for name, v in kept.items()}
        at = own.of(i)
        with torch.no_grad():
            said = evg.energy.task.logits(w, examples.x[at])
            plain = evg.task.logits(w, examples.x[at])
            judged = evg.task.logits(evg.personal((), w), examples.x[at])  # type: ignore
        assert float((said.argmax(1) == examples.y[at]).double().mean()) == found[i]
        torch.testing.assert_close(judged, said)
        assert not torch.allclose(plain, said, rtol=1e-2)
