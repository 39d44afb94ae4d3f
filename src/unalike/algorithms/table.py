"""The table of methods: name -> settings class."""

from unalike.algorithms.aaggff import AAggFFD
from unalike.algorithms.fedaug import FedAug
from unalike.algorithms.fedavgm import FedAvgM
from unalike.algorithms.fedep import FedEp
from unalike.algorithms.fedevg import FedEvgMethod
from unalike.algorithms.fednova import FedNova
from unalike.algorithms.fedopt import FedAdagrad, FedAdam, FedYogi
from unalike.algorithms.fedprox import FedProx
from unalike.algorithms.lg_fedavg import LgFedAvg
from unalike.algorithms.local_only import LocalOnly
from unalike.algorithms.method import Method
from unalike.algorithms.phase_shift import PhaseShiftMethod
from unalike.algorithms.pooled import Pooled
from unalike.algorithms.scaffold import ScaffoldMethod
from unalike.algorithms.superfed import SuPerFedMM


class FedAvgMethod(Method):
    """Local descent, then averaging by examples: the baseline of all."""

    paper = "McMahan et al. 2017, arXiv 1602.05629"


METHODS: dict[str, type[Method]] = {
    "fedavg": FedAvgMethod,
    "fedprox": FedProx,
    "scaffold": ScaffoldMethod,
    "fednova": FedNova,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
    "fedep": FedEp,
    "aaggff_d": AAggFFD,
    "lg_fedavg": LgFedAvg,
    "superfed_mm": SuPerFedMM,
    "phase_shift": PhaseShiftMethod,
    "fedaug": FedAug,
    "fedevg": FedEvgMethod,
    "local_only": LocalOnly,
    "pooled": Pooled,
}
