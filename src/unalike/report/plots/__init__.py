"""The figures of a report, as Altair charts made from plain arrays and dicts.

Altair takes half a second to import, so the functions import it and not the modules.
"""

from unalike.report.plots.canvas import save
from unalike.report.plots.curves import learning_curves
from unalike.report.plots.partition import partition_plot
from unalike.report.plots.spread import spread_plot
from unalike.report.plots.strip import client_strip

__all__ = ["client_strip", "learning_curves", "partition_plot", "save", "spread_plot"]
