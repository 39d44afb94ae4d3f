"""Commands that put a finished run to use; importing this adds them."""

from typing import Annotated, Literal

from cyclopts import Parameter

from unalike.cli.app import app
from unalike.cli.options import Flag, Out, Overrides


@app.command
def predict(
    run: str,
    rows: str,
    *,
    client: str | None = None,
    own: Flag = False,
    probabilities: Flag = False,
    round_: Annotated[Literal["selected", "last"], Parameter(name="--round")] = "selected",
    out: Out = None,
    trust: Flag = False,
) -> None:
    """Predict new rows with the model of a finished run.

    ```sh
    unalike predict runs/mine new.csv
    unalike predict runs/mine new.csv --client north --out predictions.csv
    unalike predict runs/mine photos/
    ```

    Rows are filled, encoded and scaled like the training rows. Differences are reported: missing
    columns, text that no training row had.

    Parameters
    ----------
    run
        The folder of a finished run.
    rows
        A table (.csv, .tsv, .parquet), an NPZ file with x, or a folder of images.
    client
        Predict with the model of this client, by name or number; by default with the shared one.
    own
        Predict each row with the model of the client that the data give for it.
    probabilities
        Add the probability of each class.
    round_
        The round whose model is used: the one selected on validation rows, or the last.
    out
        The table to write (.csv or .parquet); by default CSV on standard output.
    trust
        Run the Python file of a model that somebody else wrote.
    """
    from unalike.cli.predicting import predict as predict_rows

    predict_rows(run, rows, client, own, probabilities, round_, out, trust)


@app.command
def export(
    run: str,
    *,
    to: Literal["torch", "safetensors", "onnx"],
    client: str | None = None,
    round_: Annotated[Literal["selected", "last"], Parameter(name="--round")] = "selected",
    out: Out = None,
    trust: Flag = False,
) -> None:
    """Write the model of a finished run for other programs, with features.json beside it.

    ```sh
    unalike export runs/mine --to onnx
    unalike export runs/mine --to torch --client north --out north/
    ```

    Parameters
    ----------
    run
        The folder of a finished run.
    to
        torch: a state dict and an exported program; safetensors: the tensors; onnx: ONNX.
    client
        The model of this client, by name or number; by default the shared one.
    round_
        The round whose model is written: the one selected on validation rows, or the last.
    out
        The folder to write to; by default export in the run folder.
    trust
        Run the Python file of a model that somebody else wrote.
    """
    from unalike.cli.predicting import export as export_model

    export_model(run, to, client, round_, out, trust)


@app.command
def check(file: str, name: str | None = None, *, set_: Overrides = None) -> None:
    """Check your own method: does it train, repeat, resume and keep its shapes?

    ```sh
    unalike check mymethod.py
    unalike check mymethod.py InverseLoss --set power=2.0
    ```

    Parameters
    ----------
    file
        The Python file.
    name
        Its class; by default every method that the file defines.
    set_
        Settings of the method, as key=value; several may follow.
    """
    from unalike.cli.checking import check as check_method

    check_method(file, name, set_ or [])


@app.command
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script that lets a shell complete commands and options.

    ```sh
    unalike completion bash > ~/.local/share/bash-completion/completions/unalike
    unalike completion fish > ~/.config/fish/completions/unalike.fish
    ```

    Parameters
    ----------
    shell
        The shell to write it for.
    """
    print(app.generate_completion(shell=shell))
