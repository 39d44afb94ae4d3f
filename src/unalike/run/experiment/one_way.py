"""Metropolis weights on graphs whose links go one way: right only while every link is in use.

As long as all links are there, a client is heard by as many as it hears, and the weights keep the
plain mean of all models. With a link or a client missing, no weights can do that.
"""

from unalike.algorithms.draft import Draft
from unalike.errors import ConfigError
from unalike.parts.topology import Exponential
from unalike.run.configuration.config import Config


def refuse_gaps(draft: Draft, config: Config) -> None:
    """What would leave links of such a graph unused, and with them move the mean."""
    graph, n = draft.topology, draft.n_clients
    if not isinstance(graph, Exponential) or graph.weights != "metropolis":
        return
    reasons = {
        "topology.link_loss": graph.link_loss,
        "participation": draft.participation.count(n) < n,
        "faults": config.faults.drop or config.faults.garbage,
        "clock.deadline": config.clock.kind != "none" and config.clock.deadline is not None,
        "a method that chooses the clients of a round": draft.schedule is not None,
    }
    if name := next((name for name, true in reasons.items() if true), ""):
        raise ConfigError(
            "Metropolis weights, which SCAFFOLD takes as well, keep the mean of all models on an "
            f"exponential graph only if every link is used in every round; leave {name} out, or "
            "choose a graph whose links go both ways, such as topology.name = 'ring'."
        )
