"""``unalike report`` and ``unalike watch``: a folder as a page, written or served."""

from rich.console import Console

from unalike.tables.format import size


def write(folder: str, output: str | None) -> None:
    """Write the page and say where it is."""
    from unalike.report.html import write_report

    path = write_report(folder, output)
    shown = f"report: {path} ({size(path.stat().st_size)})"
    Console(markup=False).print(shown, soft_wrap=True)


def serve(folder: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    from unalike.report.live import Server

    console = Console(markup=False)
    with Server(folder, port) as server:
        console.print(f"watching {folder} at {server.url} (stop with Ctrl-C)", soft_wrap=True)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            console.print("stopped watching.")
