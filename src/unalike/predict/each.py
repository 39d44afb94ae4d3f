"""Predictions for rows of many clients, each by its own client's model."""

import numpy as np
import torch
from torch import Tensor

from unalike.errors import DataError, warn_once
from unalike.federation.readers.new_rows import NewRows
from unalike.predict.trained import Trained


def by_owner(trained: Trained, rows: NewRows) -> Tensor:
    """What each row's own client's model says; the shared one where the client is not known."""
    if rows.clients is None:
        named = f"under '{trained.reading.client}'" if trained.reading.client else "by a column"
        raise DataError(
            f"the rows do not say which client they belong to {named}; name a client instead."
        )
    said: list[tuple[np.ndarray, Tensor]] = []
    strange = []
    for name in np.unique(rows.clients):
        at = np.flatnonzero(rows.clients == name)
        known = str(name) in trained.clients
        strange += [] if known else [str(name)]
        model = trained.personal(str(name)) if known else trained
        said.append((at, model.outputs(rows.x[torch.from_numpy(at)])))
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        warn_once(
            f"'{strange[0]}'{more} took no part in training; the shared model predicts there."
        )
    order = np.argsort(np.concatenate([at for at, _ in said]), kind="stable")
    return torch.cat([out for _, out in said])[torch.from_numpy(order)]
