"""Settings that could not act in a run of so many rounds, or of so many clients.

A limit that is set on purpose, such as a strength of 0, is none of them; nor is a schedule of the
learning rate that a shortened run does not reach, of which the run only says so.
"""

from unalike.algorithms.draft import Draft
from unalike.errors import ConfigError, warn_once
from unalike.parts.graphs import Random
from unalike.parts.topology import Clusters
from unalike.recipe import Program
from unalike.run.configuration.config import Config


def refuse_idle(draft: Draft, stages: Program) -> None:
    """An exchange that is too rare to happen, and a reserve that nobody could be in."""
    rounds, graph, n = sum(stage.rounds for stage in stages), draft.topology, draft.n_clients
    only = f"but there are only {rounds} rounds"
    if isinstance(graph, Clusters) and graph.servers > 1 and graph.period > rounds:
        raise ConfigError(
            f"topology.period is {graph.period} {only}, so edge servers would never hear one "
            "another; lower it or raise rounds."
        )
    if isinstance(graph, Random) and graph.redraw >= rounds:
        raise ConfigError(
            f"topology.redraw is {graph.redraw} {only}, so no other graph would be drawn; lower "
            "it, raise rounds, or set it to 0 for a graph that stays."
        )
    asked = draft.participation
    if asked.extra and asked.count(n) == n:
        raise ConfigError(
            f"participation.extra has nobody to invite, as all {n} clients take part anyway; lower "
            "participation.fraction or leave extra out."
        )


def note_idle(config: Config) -> None:
    """Say that the learning rate is the same throughout, where it was to fall."""
    local = config.local
    falls = local.decay == "exponential" and local.decay_rate != 1
    if falls and local.decay_every >= config.rounds > 1:
        warn_once(
            f"local.decay_every is {local.decay_every} but there are only {config.rounds} rounds, "
            "so the learning rate never falls in this run."
        )
