"""MLflow: a run of the project's experiment, wherever MLFLOW_TRACKING_URI points."""

from unalike.track.base import Begun, flat, require

AT_ONCE = 100  # parameters MLflow takes in one call


class MLflow:
    """One MLflow run for a run; a resumed run goes on in the same one."""

    def __init__(self) -> None:
        self.module = require("mlflow", "mlflow")

    def begin(self, run: Begun) -> str | None:
        """Start or reopen it, with the settings as its parameters."""
        self.module.set_experiment(run.project)
        opened = self.module.start_run(run_id=run.known, run_name=run.folder.name)
        settings = list(flat(run.config).items())
        for i in range(0, len(settings), AT_ONCE):
            self.module.log_params(dict(settings[i : i + AT_ONCE]))
        return str(opened.info.run_id)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """All metrics of a step."""
        self.module.log_metrics(numbers, step=step)

    def end(self, failed: bool) -> None:
        """Close it, finished or failed."""
        self.module.end_run("FAILED" if failed else "FINISHED")
