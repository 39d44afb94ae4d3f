"""The user's own graph from a file: GML, GraphML, or lines of two client numbers each."""

from pathlib import Path
from typing import Any

from unalike.errors import ConfigError


def read_graph(path: str) -> tuple[tuple[int, int], ...]:
    """The edges (a, b), a < b, of an undirected connected graph on the numbers 0 to n - 1."""
    import networkx as nx

    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file '{path}'; set topology.path to a graph.") from None
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"'{path}' cannot be read as text; topology.path is a graph.") from None
    graph = {".gml": _gml, ".graphml": _graphml}.get(file.suffix.lower(), _lines)(text, path)
    if not graph.number_of_edges():
        raise ConfigError(f"'{path}' has no edge; give at least one line of two client numbers.")
    wanted = set(range(max(graph) + 1))
    if missing := sorted(wanted - set(graph)):
        raise ConfigError(
            f"'{path}' has nodes up to {max(graph)} but no node {missing[0]}; number the clients "
            "0, 1, 2, ... without a gap."
        )
    if not nx.is_connected(graph):
        parts = nx.number_connected_components(graph)
        raise ConfigError(
            f"the graph in '{path}' falls into {parts} parts, whose clients would never hear "
            "from each other; add an edge between them."
        )
    return tuple(sorted((min(e), max(e)) for e in graph.edges if e[0] != e[1]))


def _gml(text: str, path: str) -> Any:
    import networkx as nx

    try:
        found = nx.parse_gml(text, label="id")
    except (nx.NetworkXError, ValueError, KeyError, IndexError) as error:
        why = str(error).rstrip(".")
        raise ConfigError(f"'{path}' is not a graph in GML: {why}.") from None
    return nx.Graph(found)


def _graphml(text: str, path: str) -> Any:
    import networkx as nx

    try:
        return nx.Graph(nx.parse_graphml(text, node_type=int))
    except (nx.NetworkXError, ValueError, SyntaxError) as error:  # bad XML is a SyntaxError
        why = str(error).rstrip(".")
        raise ConfigError(f"'{path}' is not a graph of client numbers in GraphML: {why}.") from None


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
