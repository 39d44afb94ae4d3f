"""At the centre: the coordinator of unalike, in the process that Flower starts for it."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """A whole run."""
    from unalike.deploy.flower.coordinator import coordinate

    coordinate(grid, dict(context.run_config))
