"""The application that commands are added to."""

from cyclopts import App

app = App(
    name="unalike",
    help="""
    Federated learning for data that are not alike.

    ```text
    unalike compare quickstart       nine methods on unalike digits, in a minute
    unalike list                     methods, partitioners, datasets, models
    unalike list fedprox             the settings of one of them
    unalike run first.toml           train what a file describes
    unalike predict RUN new.csv      predict new rows with its model
    unalike skew first.toml          how unalike its clients are
    unalike advise first.toml        which method suits them
    unalike tune first.toml          which settings suit a method
    ```
    """,
    help_format="markdown",
    help_epilogue="More about a command: unalike COMMAND --help",
    suppress_keyboard_interrupt=False,  # main says how to continue
)
