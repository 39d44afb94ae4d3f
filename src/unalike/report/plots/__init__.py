"""The figures of a report, as Altair charts made from plain arrays and dicts.

Altair takes half a second to import, so the functions import it and not the modules.
"""

from unalike.report.plots.along import line_plot, steps_plot
from unalike.report.plots.canvas import save
from unalike.report.plots.curves import cost_curves, learning_curves, time_curves
from unalike.report.plots.frontier import fairness_frontier
from unalike.report.plots.latents import latent_plot
from unalike.report.plots.leaks import leak_plot
from unalike.report.plots.nodes import consensus_plot, mixing_plot, node_curves
from unalike.report.plots.partition import partition_plot
from unalike.report.plots.ranks import rank_plot
from unalike.report.plots.regret import regret_plot
from unalike.report.plots.reliability import reliability_diagram
from unalike.report.plots.spread import spread_plot
from unalike.report.plots.squares import cross_plot, landscape_plot
from unalike.report.plots.strip import client_strip
from unalike.report.plots.topology import topology_plot
from unalike.report.plots.weights import weights_plot

__all__ = [
    "client_strip",
    "consensus_plot",
    "cost_curves",
    "cross_plot",
    "fairness_frontier",
    "landscape_plot",
    "latent_plot",
    "leak_plot",
    "learning_curves",
    "line_plot",
    "mixing_plot",
    "node_curves",
    "partition_plot",
    "rank_plot",
    "regret_plot",
    "reliability_diagram",
    "save",
    "spread_plot",
    "steps_plot",
    "time_curves",
    "topology_plot",
    "weights_plot",
]
