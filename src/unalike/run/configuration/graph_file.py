"""The user's own graph: pairs of client numbers, or a file in GML, GraphML or lines of pairs."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from unalike.errors import ConfigError

Edges = tuple[tuple[int, int], ...]


def read_graph(path: str) -> Edges:
    """The edges (a, b), a < b, of an undirected connected graph on the numbers 0 to n - 1."""
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file '{path}'; set topology.path to a graph.") from None
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"'{path}' cannot be read as text; topology.path is a graph.") from None
    graph = {".gml": _gml, ".graphml": _graphml}.get(file.suffix.lower(), _lines)(text, path)
    return _whole(graph, f"the graph in '{path}'")


def listed_graph(pairs: Sequence[Sequence[int]]) -> Edges:
    """The same from a list of pairs."""
    import networkx as nx

    for pair in pairs:
        if len(pair) != 2 or min(pair) < 0:
            raise ConfigError(
                f"topology.edges must be pairs of client numbers such as [0, 1], got {list(pair)}."
            )
    return _whole(nx.Graph(map(tuple, pairs)), "the graph in topology.edges")


def plain_pairs(edges: Any) -> Any:
    """Rows of an array, tuples and whole numbers of NumPy as lists of Python's numbers."""
    if not isinstance(edges, Iterable):
        return edges
    return [
        [int(i) if isinstance(i, Integral) else i for i in e] if isinstance(e, Iterable) else e
        for e in edges
    ]


def undirected(graph: Any, called: str) -> Any:
    """A graph of networkx whose edges all lead both ways, at most one between two nodes."""
    import networkx as nx

    if graph.is_directed():
        for a, b in graph.edges():
            if not graph.has_edge(b, a):
                raise ConfigError(
                    f"{called} has an edge from {a} to {b} and none back, but clients hear each "
                    "other both ways; give an undirected graph."
                )
    if alone := [node for node in nx.isolates(graph)]:
        raise ConfigError(
            f"{called} has a node {alone[0]} without an edge, whose client would never hear from "
            "another; add one."
        )
    return nx.Graph(graph)


def _whole(graph: Any, called: str) -> Edges:
    """The edges of a graph that leaves no client out."""
    import networkx as nx

    if not graph.number_of_edges():
        raise ConfigError(f"{called} has no edge; give at least one pair of client numbers.")
    wanted = set(range(max(graph) + 1))
    if missing := sorted(wanted - set(graph)):
        raise ConfigError(
            f"{called} has nodes up to {max(graph)} but no node {missing[0]}; number the clients "
            "0, 1, 2, ... without a gap."
        )
    if not nx.is_connected(graph):
        parts = nx.number_connected_components(graph)
        raise ConfigError(
            f"{called} falls into {parts} parts, whose clients would never hear from each other; "
            "add an edge between them."
        )
    return tuple(sorted((min(e), max(e)) for e in graph.edges if e[0] != e[1]))


def _gml(text: str, path: str) -> Any:
    import networkx as nx

    try:
        found = nx.parse_gml(text, label="id")
    except (nx.NetworkXError, ValueError, KeyError, IndexError) as error:
        why = str(error).rstrip(".")
        raise ConfigError(f"'{path}' is not a graph in GML: {why}.") from None
    return undirected(found, f"the graph in '{path}'")


def _graphml(text: str, path: str) -> Any:
    import networkx as nx

    try:
        found = nx.parse_graphml(text, node_type=int)
    except (nx.NetworkXError, ValueError, SyntaxError) as error:  # bad XML is a SyntaxError
        why = str(error).rstrip(".")
        raise ConfigError(f"'{path}' is not a graph of client numbers in GraphML: {why}.") from None
    return undirected(found, f"the graph in '{path}'")


def _lines(text: str, path: str) -> Any:
    import networkx as nx

    graph = nx.Graph()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2 or not all(w.isdecimal() for w in words):
            raise ConfigError(
                f"line {number} of '{path}' must be two client numbers such as '0 1', "
                f"got '{line.strip()[:40]}'."
            )
        graph.add_edge(*map(int, words))
    return graph
