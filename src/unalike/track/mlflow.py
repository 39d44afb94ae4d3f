"""MLflow: a run of the project's experiment, wherever MLFLOW_TRACKING_URI points.

MLflow's client is used and not its active run, which belongs to the program around us: if there is
one, ours becomes its child.
"""

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unalike.run.configuration.dotted import flat
from unalike.track.base import FILES, Begun, require

AT_ONCE = 100  # parameters MLflow takes in one call
ALWAYS = "bytes"  # a number that every round has
RETRIES = "3"  # a server that is away holds a run up for 15 seconds, not for MLflow's four minutes


class MLflow:
    """One MLflow run for a run; a resumed run continues in the same one."""

    def __init__(self) -> None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", RETRIES)
        self.module = require("mlflow", "mlflow")

    def begin(self, run: Begun) -> str | None:
        """Create or reopen it, with the settings as its parameters."""
        with _one_at_a_time():
            self.client: Any = self.module.MlflowClient()
            experiment = self._experiment(run.project)
        self.folder = run.folder
        self.id = str(run.known or self._create(experiment, run.folder.name))
        if run.known:
            self.client.update_run(self.id, status="RUNNING")
        logged = self.client.get_metric_history(self.id, ALWAYS) if run.known else []
        self.last = max((point.step for point in logged), default=0)
        settings = flat(run.config, lists=True)
        params = [self.module.entities.Param(k, str(v)) for k, v in settings.items()]
        for i in range(0, len(params), AT_ONCE):
            self.client.log_batch(self.id, params=params[i : i + AT_ONCE])
        return self.id

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """All metrics of a step, unless a process that was killed had logged it."""
        if step > self.last:
            now, metric = int(time.time() * 1000), self.module.entities.Metric
            points = [metric(name, value, now, step) for name, value in numbers.items()]
            self.client.log_batch(self.id, metrics=points)

    def end(self, failed: bool) -> None:
        """Close it, finished or failed; a finished one gets the run's small files."""
        if not failed:
            for name in FILES:
                self.client.log_artifact(self.id, str(self.folder / name))
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")

    def _experiment(self, project: str) -> str:
        found = self.client.get_experiment_by_name(project)
        return str(found.experiment_id if found else self.client.create_experiment(project))

    def _create(self, experiment: str, name: str) -> str:
        around = self.module.active_run()
        tags = {
            "mlflow.user": os.environ.get("USER", str(os.getuid())),
            "mlflow.source.name": sys.argv[0],
            "mlflow.source.type": "LOCAL",
            **({"mlflow.parentRunId": around.info.run_id} if around else {}),
        }
        return str(self.client.create_run(experiment, tags=tags, run_name=name).info.run_id)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Processes that open a database at the same time would each create its tables."""
    path = Path(tempfile.gettempdir()) / f"unalike-mlflow-{os.getuid()}.lock"
    with path.open("a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield
