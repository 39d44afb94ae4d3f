"""The data inside a chart."""


def tables(chart):
    """The rows of every data set, largest first."""
    return sorted(chart.to_dict()["datasets"].values(), key=len, reverse=True)
