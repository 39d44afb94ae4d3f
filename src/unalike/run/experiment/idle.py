"""Settings that cannot act in a run of so many rounds, or of so many clients.

A limit that is set on purpose, such as a strength of 0, is none of them. What only a longer run
would show is said and not refused, since runs are shortened to look at them, and by `unalike
advise` to try them out.
"""

from unalike.algorithms.draft import Draft
from unalike.errors import ConfigError, counted, warn_once
from unalike.parts.graphs import Random
from unalike.parts.topology import Clusters
from unalike.recipe import Program
from unalike.run.configuration.config import Config

TOO_SHORT = "but this run has only"


def refuse_idle(draft: Draft) -> None:
    """A reserve that nobody could be in."""
    asked, n = draft.participation, draft.n_clients
    if asked.extra and asked.count(n) == n:
        raise ConfigError(
            f"participation.extra has nobody to invite, as all {n} clients take part anyway; lower "
            "participation.fraction or leave extra out."
        )


def note_idle(config: Config, draft: Draft, stages: Program) -> None:
    """Say what happens too rarely to happen at all; a single round is a quick look."""
    rounds, graph, local = sum(stage.rounds for stage in stages), draft.topology, config.local
    if rounds == 1:
        return
    only = f"{TOO_SHORT} {counted(rounds, 'round')}"
    if isinstance(graph, Clusters) and graph.servers > 1 and graph.period > rounds:
        warn_once(
            f"topology.period is {graph.period} {only}, so edge servers never hear one another."
        )
    if isinstance(graph, Random) and graph.redraw >= rounds:
        warn_once(f"topology.redraw is {graph.redraw} {only}, so no other graph is drawn.")
    falls = local.decay == "exponential" and local.decay_rate != 1
    if falls and local.decay_every >= rounds:
        warn_once(
            f"local.decay_every is {local.decay_every} {only}, so the learning rate never falls."
        )
