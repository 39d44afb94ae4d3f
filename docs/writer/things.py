"""The reference of everything that has a name: partitioners, shifts, datasets, models."""

from typing import cast

from unalike.models.base import Model
from unalike.models.pretrained import PRETRAINED
from unalike.run.configuration.config import tables
from unalike.settings import Settings
from writer.settings import entry, head_of_file

# Inputs that a model was published for: (shape of one example, classes).
PUBLISHED: dict[str, tuple[tuple[int, ...], int]] = {
    "logistic": ((15,), 1),
    "mlp": ((1, 8, 8), 10),
    "lg_cnn": ((3, 32, 32), 10),
    "feddisco_cnn": ((3, 32, 32), 10),
    "cifar_cnn": ((3, 32, 32), 10),
    "leaf_cnn": ((3, 84, 84), 1),
    "vgg9": ((1, 28, 28), 62),
    "resnet9": ((3, 28, 28), 100),
    "resnet10": ((3, 32, 32), 10),
    "mobilenet": ((3, 64, 64), 200),
    "mobilenet_small": ((3, 32, 32), 10),
    "m5": ((1, 16000), 35),
    "stacked_lstm": ((80,), 80),
}
USUAL: tuple[tuple[int, ...], int] = ((1, 28, 28), 10)


def partitioners_page() -> str:
    """Every partitioner and every shift."""
    named = tables()
    parts = [
        "# Partitioners and shifts\n",
        "A partitioner gives each example to at most one client; a shift then changes what the "
        "clients hold. To measure skew, or to ask for a certain amount of it, see [Measure "
        "skew](how-to-measure-skew.md).\n",
        "Client numbers carry no meaning: partitioners number the clients at random, from the "
        "seed. So the phases of [phase-shift](methods/phase_shift.md), the "
        "[clusters](methods/clusters.md) of a server and the neighbours on a "
        "[ring](methods/ring.md) are random groups. Natural clients keep their names. If clients "
        "differ in kind, `marks` in [`skew.json`](ref-run-folder.md#skewjson) says which is "
        "which.\n",
        "In the formulas K is the number of clients, M of classes, N of examples.\n",
    ]
    parts += [entry(n, c, head_of_file(c)) for n, c in named["partition"].items()]
    parts.append(
        "## Shifts\n\nShifts are applied in the order of their `[[shift]]` tables, after the "
        "split into training, validation and test rows.\n"
    )
    parts += [entry(n, c, head_of_file(c), depth=3) for n, c in named["shift"].items()]
    return "\n".join(parts)


def datasets_page() -> str:
    """Every dataset, with the files it looks for."""
    parts = [
        "# Datasets\n",
        "`digits`, `breast_cancer` and `diabetes` come with scikit-learn. The others are read "
        "from the folder in their setting `folder`, or else in the environment variable "
        "`UNALIKE_DATA`, or else from the Hugging Face hub or its cache if they are there (this "
        "needs `pip install 'unalike[hub]'`). Your own files are [`files`](#files): see [Use "
        "your own data](how-to-own-data.md).\n",
    ]
    for name, cls in tables()["data"].items():
        more = []
        if files := getattr(cls, "files", ""):
            more.append(f"Files: {files.rstrip(',')}.\n")
        if hub := getattr(cls, "hub_name", ""):
            more.append(f"On the hub: `{hub}`.\n")
        parts.append(entry(name, cls, *more, head_of_file(cls)))
    return "\n".join(parts)


def models_page() -> str:
    """Every model, with its number of parameters."""
    parts = [
        "# Models\n",
        "A model is described by settings and built for the data at hand. The vertical bar in a "
        "description separates body and head: methods that keep part of the model on the client "
        "split it there. Your own network is [`module`](#module): see [Use your own "
        "model](how-to-own-model.md).\n",
        "## Parameter counts\n",
        "At default settings, for the input the model was published for. Buffers are the running "
        "statistics of batch normalisation.\n",
        "| model | input | outputs | parameters | of these in the head | buffers |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, cls in tables()["model"].items():
        if name not in {"module", *PRETRAINED}:  # which need a file, or another library
            parts.append(_counts(name, cls))
    parts.append("")
    for name, cls in tables()["model"].items():
        takes = getattr(cls, "takes", "")
        parts.append(entry(name, cls, f"Takes {takes}.\n", head_of_file(cls)))
    return "\n".join(parts)


def _counts(name: str, cls: type[Settings]) -> str:
    from unalike.network import Network

    shape, outputs = PUBLISHED.get(name, USUAL)
    network = Network(cast(type[Model], cls)().build(shape, outputs))
    size = {n: x.numel() for n, x in network.given().items()}
    total = sum(size[n] for n in network.weights)
    head = sum(size[n] for n in network.weights if n.startswith(network.head))
    buffers = sum(size[n] for n in network.buffers)
    wide = " × ".join(map(str, shape))
    return f"| [`{name}`](#{name}) | {wide} | {outputs} | {total:,} | {head:,} | {buffers:,} |"
