"""Exported models say what the run's own say."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from patients import NET, patients, run
from safetensors.torch import load_file

import unalike
from unalike.models import MODELS as networks
from unalike.predict.export import _onnx, export

MODELS = {"mlp": {"name": "mlp", "hidden": [8]}, "own": {"name": "module", "file": "net.py"}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("export")
    (place / "net.py").write_text(NET)
    made = {}
    for name, model in MODELS.items():
        if "file" in model:
            model = {**model, "file": str(place / "net.py")}
        rest = {"run": {"buffers": "local"}} if name == "own" else {"method": "superfed_mm"}
        made[name] = run(place / name, patients(), model=model, **rest)
    return made


def expected(folder: Path, client: str | None) -> tuple[np.ndarray, np.ndarray]:
    """(rows as a network takes them, its logits)."""
    trained = unalike.load(folder)
    trained = trained if client is None else trained.personal(client)
    x = trained.features.apply(trained.read(patients()).x)
    return x.numpy(), trained.logits(patients()).numpy()


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # of torch.export.load, 2.11
@pytest.mark.parametrize(("name", "client"), [("mlp", None), ("mlp", "north"), ("own", "north")])
def test_torch(name: str, client: str | None, folders: dict[str, Path], tmp_path: Path) -> None:
    export(folders[name], "torch", client=client, out=tmp_path)
    x, logits = expected(folders[name], client)
    program = torch.export.load(tmp_path / "model.pt2").module()
    for rows in (slice(0, 1), slice(None)):
        found = program(torch.from_numpy(x[rows])).detach().numpy()
        np.testing.assert_allclose(found, logits[rows], atol=1e-5)
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    module = unalike.load(folders[name]).task.network.module(state)
    np.testing.assert_allclose(module(torch.from_numpy(x)).detach(), logits, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    export(folders[name], "onnx", client="north", out=tmp_path)
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    x, logits = expected(folders[name], "north")
    for rows in (slice(0, 1), slice(None)):
        (found,) = session.run(None, {"rows": x[rows]})
        np.testing.assert_allclose(found, logits[rows], atol=1e-5)


SHAPES = [(1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 8000)]  # images and sound
OTHERS = {"vae", "stacked_lstm"}  # no logits; text, which ONNX takes as whole numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(networks.keys() - OTHERS))
def test_every_network_as_onnx(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    for shape in SHAPES:
        try:
            module = networks[name]().build(shape, 10).eval()
            rows = torch.from_numpy(np.random.default_rng(0).normal(size=(3, *shape))).float()
            logits = module(rows).detach().numpy()
            break
        except (unalike.ConfigError, RuntimeError):
            continue
    trained = SimpleNamespace(task=SimpleNamespace(gives="logits"))
    (path,) = _onnx(module, rows, tmp_path, trained)
    (found,) = runtime.InferenceSession(str(path)).run(None, {"rows": rows.numpy()})
    np.testing.assert_allclose(found, logits, atol=1e-5, rtol=1e-5)


def test_safetensors_and_the_description(folders: dict[str, Path], tmp_path: Path) -> None:
    written = export(folders["mlp"], "safetensors", client=2, out=tmp_path / "new")
    assert [path.name for path in written] == ["model.safetensors", "features.json"]
    kept = load_file(tmp_path / "new" / "model.safetensors")
    every = unalike.load(folders["mlp"]).weights.personal
    assert every is not None
    assert all(torch.equal(kept[k], every[k][2]) for k in every)
    raw = json.loads((tmp_path / "new" / "features.json").read_text())
    assert [column["name"] for column in raw["columns"]] == ["age", "job", "smokes", "pressure"]


def test_several_models_are_no_single_one(tmp_path: Path) -> None:
    folder = run(tmp_path, patients(), method="local_only", rounds=1)
    with pytest.raises(unalike.RunError, match="4 models predict together here"):
        export(folder, "torch")


def test_onnx_without_the_package(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(unalike.DataError, match=r"pip install 'unalike\[onnx\]'"):
        export(folders["mlp"], "onnx", out=tmp_path)


def test_damaged_and_unfinished_folders(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folders["mlp"], copy)
    (copy / "model.safetensors").write_bytes(b"?")
    with pytest.raises(unalike.RunError, match="is damaged"):
        unalike.load(copy, "last")
    (copy / "summary.json").unlink()
    with pytest.raises(unalike.RunError, match="has not finished; continue with: unalike resume"):
        unalike.load(copy)
    with pytest.raises(unalike.RunError, match="there is no run folder"):
        unalike.load(tmp_path / "nowhere")
