"""Everything your own method needs; these names are meant to stay.

A rule for the weights is a ``WeightRule``. For anything else, write a ``Method`` whose
``change`` puts something into the ``Draft``: a penalty, a server optimizer, a filter, a codec, an
algorithm with a client half and a server half, a wrapper around any algorithm, an earlier stage.
"""

from unalike import rng, tree
from unalike.algorithm import Algorithm, Ctx, Stateless, Wrapper
from unalike.algorithms.draft import Before, Draft, fedavg
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.method import Method, Slot, WeightRule
from unalike.batches import Batch, Batches
from unalike.channel import Codec, InPlace
from unalike.cohort import Cohort
from unalike.gradient import gradient
from unalike.parts.descent import Loss, Penalised, descend
from unalike.parts.mixing.base import Gauge, Memoryless, Mixing, Weighed
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.mixing.questions import LabelCounts, LabelSet, Own, Plain, Question, Size
from unalike.parts.objective import Term
from unalike.parts.optim import Adam, Optimizer, Sgd
from unalike.parts.representation.private import Private
from unalike.recipe import Filter, Recipe, Stage
from unalike.rng import Key, Stream
from unalike.settings import Settings, setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params, Tree
from unalike.uploads import Uploads

__all__ = [
    "Adam",
    "Algorithm",
    "Batch",
    "Batches",
    "Before",
    "ByExamples",
    "Codec",
    "Cohort",
    "Ctx",
    "Draft",
    "FedAvg",
    "Filter",
    "Gauge",
    "InPlace",
    "Key",
    "LabelCounts",
    "LabelSet",
    "Loss",
    "Memoryless",
    "Method",
    "Mixing",
    "Optimizer",
    "Own",
    "Params",
    "Penalised",
    "Plain",
    "Private",
    "Question",
    "Recipe",
    "Settings",
    "Sgd",
    "Size",
    "Slot",
    "Stage",
    "Stateless",
    "Stream",
    "Task",
    "Term",
    "Trait",
    "Tree",
    "Uniform",
    "Uploads",
    "Weighed",
    "WeightRule",
    "Wrapper",
    "descend",
    "fedavg",
    "gradient",
    "rng",
    "setting",
    "tree",
]
