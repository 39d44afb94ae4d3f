"""The table of docs/results/fedevg.md: classifiers that have seen made pictures alone."""

from collections.abc import Callable

from unalike.compare.statistics.reuse import Reuse, resplit
from writer.results import Line, against, difference, runs, spread, table, value

PRINTED = {  # Tables 4.2 and 4.4: accuracy and FID at 0.01 and 1
    ("fedevg-mnist", "FedEvg"): {"0.01": ("62.95", "171.5"), "1": ("70.94", "124.7")},
    ("fedevg-mnist", "FedCVAE"): {"0.01": ("66.93", "214.4"), "1": ("64.73", "181.3")},
    ("fedevg-mnist", "FedCGAN"): {"0.01": ("44.18", "331.5"), "1": ("60.81", "300.7")},
    ("fedevg-cifar", "FedEvg"): {"0.01": ("17.25", "359.2"), "1": ("29.08", "286.3")},
    ("fedevg-cifar", "FedCVAE"): {"0.01": ("13.98", "399.3"), "1": ("7.66", "396.3")},
    ("fedevg-cifar", "FedCGAN"): {"0.01": ("9.96", "388.1"), "1": ("15.95", "291.6")},
}
ACCURACY = value("local", "accuracy", "weighted_mean")


def fid(x: Line) -> float:
    """The distance between made and real pictures."""
    return float(x["fid"])


def made() -> str:
    """Accuracy of the server's classifier and distance of its pictures."""
    rows = []
    for (file, label), printed in PRINTED.items():
        for alpha, (accuracy, distance) in printed.items():
            some, ours = (runs(file, condition=alpha, label=n) for n in (label, "FedEvg"))
            if not some:
                continue
            leads = ["–", "–"]
            if label != "FedEvg":
                of: tuple[tuple[Callable[[Line], float], Reuse, float], ...]
                of = ((ACCURACY, resplit(0.2), 100.0), (fid, Reuse(), 1.0))
                leads = [difference(against(ours, some, f, r), 2, s) for f, r, s in of]
            told = [spread([ACCURACY(x) for x in some]), leads[0], accuracy]
            told += [spread([fid(x) for x in some], 2, 1.0), leads[1], distance]
            data = {"fedevg-mnist": "MNIST", "fedevg-cifar": "CIFAR-10"}[file]
            rows.append([data, alpha, label, *told, str(len(some))])
    rows.sort(key=lambda row: (row[0] != "MNIST", row[1]))
    head = ["data", "α", "method", "accuracy", "FedEvg's lead", "in print"]
    head += ["distance of pictures", "FedEvg's", "FID in print", "seeds"]
    return table(head, rows, left=3)
