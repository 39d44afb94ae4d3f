"""A model of a run for other programs: PyTorch, safetensors or ONNX, with features.json beside it.

What is exported takes rows that are filled and scaled as features.json says and gives logits, or
numbers in the unit of the target. Bare weights (a state dict, safetensors) of a regression give
scaled numbers: centre and spread are the unit that features.json has under shape.
"""

import logging
import shutil
import warnings
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from unalike.errors import ConfigError, RunError
from unalike.federation.readers.extras import require
from unalike.own_code import reason
from unalike.predict.trained import Trained, load
from unalike.predict.weights import Which

Format = Literal["torch", "safetensors", "onnx"]
ROWS = 2  # in the example that a network is traced with; fewer would become a constant


def export(
    folder: str | Path,
    to: Format,
    *,
    client: str | int | None = None,
    which: Which = "selected",
    out: str | Path | None = None,
    trust: bool = False,
) -> list[Path]:
    """Write one model of a run in another format; the files that were written.

    Args:
        folder: Of a finished run.
        to: torch writes ``model.pt`` (a state dict) and ``model.pt2`` (a program that
            ``torch.export.load`` runs without this library), safetensors and onnx one file each.
        client: Whose model, by name or number; left out, the shared one.
        which: The selected round, or the last.
        out: Where to; left out, ``export`` in the run's folder.
        trust: Whether to run the Python file of a model that somebody else wrote.
    """
    if to not in ("torch", "safetensors", "onnx"):
        raise ConfigError(f"unknown format '{to}': choose torch, safetensors or onnx.")
    trained = load(folder, which, trust=trust)
    if client is not None:
        trained = trained.personal(client)
    place = Path(folder) / "export" if out is None else Path(out)
    module = trained.module  # says so if there is no single one
    example = trained.shape.blank().x[:1].expand(ROWS, *trained.shape.features).contiguous()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"'{place}' cannot be made: {error.strerror}.") from None
    written = {"torch": _torch, "safetensors": _safetensors, "onnx": _onnx}[to](
        module, example, place, trained
    )
    shutil.copyfile(Path(folder) / "features.json", place / "features.json")
    return [*written, place / "features.json"]


def _safetensors(module: nn.Module, example: Tensor, place: Path, trained: Trained) -> list[Path]:
    path = place / "model.safetensors"
    save_file({k: v.clone().contiguous() for k, v in trained.models[0].items()}, path)
    return [path]


def _torch(module: nn.Module, example: Tensor, place: Path, trained: Trained) -> list[Path]:
    state, program = place / "model.pt", place / "model.pt2"
    torch.save(dict(trained.models[0]), state)
    rows = torch.export.Dim("rows", min=1)
    try:
        exported = torch.export.export(module, (example,), dynamic_shapes=({0: rows},))
        torch.export.save(exported, program)
    except Exception as error:  # any part of a network may be what it cannot follow
        raise RunError(
            f"the state dict is in '{state}', but the network cannot be exported as a program: "
            f"{reason(error)}."
        ) from error
    return [state, program]


def _onnx(module: nn.Module, example: Tensor, place: Path, trained: Trained) -> list[Path]:
    require("onnx", "onnx", "writing ONNX")
    require("onnxscript", "onnx", "writing ONNX")
    path = place / "model.onnx"
    options: dict[str, Any] = {"input_names": ["rows"], "output_names": [trained.task.gives]}
    shapes = ({0: torch.export.Dim("n", min=1)},)
    told = logging.getLogger("torch.onnx")
    level = told.level
    told.setLevel(logging.ERROR)  # the exporter warns of packages that this has no use for
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (example,),
                path,
                dynamo=True,
                dynamic_shapes=shapes,
                verbose=False,
                **options,
            )
    except Exception as error:
        raise RunError(f"the network cannot be written as ONNX: {reason(error)}.") from error
    finally:
        told.setLevel(level)
    return [path]
