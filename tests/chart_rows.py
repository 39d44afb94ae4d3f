"""The data inside a chart, read back."""

import csv
import io


def tables(chart):
    """The rows of every data set, largest first."""
    spec = chart.to_dict()
    kinds = {}

    def walk(node):
        if isinstance(node, dict):
            if "name" in node and "format" in node:
                kinds[node["name"]] = node["format"]["parse"]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for item in node:
                walk(item)

    walk(spec)
    read = {"string": str, "number": float}
    found = [
        [
            {key: read[kinds[name][key]](value) for key, value in row.items()}
            for row in csv.DictReader(io.StringIO(text))
        ]
        for name, text in spec["datasets"].items()
    ]
    return sorted(found, key=len, reverse=True)
