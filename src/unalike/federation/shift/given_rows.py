"""Rows of a file that clients also train on: a synthetic set, or any public set.

client k trains on D_k and the rows of the file, if it is among the poorest clients

The file is an NPZ with arrays ``x`` and ``y``, as methods that generate examples write it to the
run folder (``synthetic.npz``), with features like those of the data. Test and validation rows stay
as they are. What is given out counts as downloads before the first round.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError
from unalike.federation.shift.base import Shift

if TYPE_CHECKING:
    from unalike.federation.data import Examples, Federation


class GivenRows(Shift):
    """Clients, or the poorest of them, also train on rows of a file, such as a synthetic set."""

    file: str = Field(
        default="", description="NPZ file with arrays x and y, such as synthetic.npz of a run"
    )
    poorest: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="share of the clients that get rows: those with the fewest training rows",
    )

    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """Copies of the rows are put to the training rows of the chosen clients."""
        from unalike.federation.data import TRAIN

        e, n = federation.examples, federation.n_clients
        x, y = self._read(e)
        sizes = federation.sizes(TRAIN)
        count = max(1, round(self.poorest * n))
        poor = np.sort(np.argsort(sizes, kind="stable")[:count])
        words = [""] * (n + federation.n_new)
        for k in poor:
            words[k] = f"given {len(y)} rows of {Path(self.file).name}"
        taken = np.concatenate([np.arange(len(e)), np.tile(len(e) + np.arange(len(y)), len(poor))])
        part = np.concatenate([federation.part, np.full(len(taken) - len(e), TRAIN)])
        known = np.arange(len(e)) if federation.source is None else federation.source
        return replace(
            federation,
            examples=_longer(e, x, y).take(taken),
            owner=np.concatenate([federation.owner, np.repeat(poor, len(y))]),
            part=part.astype(federation.part.dtype),
            source=np.concatenate([known, np.full(len(taken) - len(e), -1)]),
            handed=federation.handed + len(poor) * (x.nbytes + y.nbytes),
        ).marked(words)

    def _read(self, e: "Examples") -> tuple[Any, Any]:
        """The rows, if they are like the data's."""
        import torch

        if not self.file:
            raise ConfigError(
                "shift 'given_rows' needs a file; set file to an NPZ with arrays x and y, such as "
                "synthetic.npz of a run."
            )

        try:
            with Path(self.file).open("rb") as file, np.load(file, allow_pickle=False) as found:
                x, y = torch.from_numpy(found["x"]).to(e.x.dtype), torch.from_numpy(found["y"])
        except OSError as error:
            why = error.strerror or "it is not an NPZ file"
            raise ConfigError(f"'{self.file}' of given_rows cannot be read: {why}.") from None
        except (EOFError, KeyError, TypeError, ValueError, BadZipFile):
            raise ConfigError(
                f"'{self.file}' of given_rows must be an NPZ file with arrays x and y of numbers; "
                "name synthetic.npz of a run, or write one with numpy.savez."
            ) from None
        if x.shape[1:] != e.x.shape[1:] or len(x) != len(y) or not len(y):
            raise ConfigError(
                f"'{self.file}' of given_rows holds rows of shape {tuple(x.shape[1:])}, and the "
                f"data have {tuple(e.x.shape[1:])}; make them from the same data."
            )
        whole = e.kind == "multiclass" and not y.is_floating_point()
        if not (whole and int(y.min()) >= 0 and int(y.max()) < e.classes):
            raise ConfigError(
                f"the labels in '{self.file}' of given_rows must be classes 0 to {e.classes - 1}, "
                "as those of the data; make them from the same data."
            )
        return x, y.to(e.y.dtype)


def _longer(e: "Examples", x: Any, y: Any) -> "Examples":
    """The examples with rows more, which belong to no natural client or unit."""
    import torch

    def with_more(values: np.ndarray | None, n: int = len(y)) -> np.ndarray | None:
        if values is None:
            return None
        return np.concatenate([values, np.full(n, values.max() + 1, values.dtype)])

    x, y, units = torch.cat([e.x, x]), torch.cat([e.y, y]), with_more(e.units)
    return replace(e, x=x, y=y, groups=None, part=None, units=units)
