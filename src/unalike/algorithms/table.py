"""The table of methods: name -> settings class."""

from unalike.algorithms.aaggff_d import AAggFFD
from unalike.algorithms.aaggff_s import AAggFFS
from unalike.algorithms.afl import Afl
from unalike.algorithms.apfl import ApflMethod
from unalike.algorithms.astraea import Astraea
from unalike.algorithms.by_size import BySizeMethod
from unalike.algorithms.ditto import DittoMethod
from unalike.algorithms.dp import CentralDp
from unalike.algorithms.eight_bit import EightBitMethod
from unalike.algorithms.fedaug import FedAug
from unalike.algorithms.fedavgm import FedAvgM
from unalike.algorithms.fedbn import FedBn
from unalike.algorithms.fedbuff import FedBuff
from unalike.algorithms.fedcgan import FedCgan
from unalike.algorithms.fedcvae import FedCvae
from unalike.algorithms.feddisco import FedDisco
from unalike.algorithms.feddyn import FedDynMethod
from unalike.algorithms.fedep import FedEp
from unalike.algorithms.fedevg import FedEvgMethod
from unalike.algorithms.fedmgda import FedMgda
from unalike.algorithms.fedmix import FedMixMethod
from unalike.algorithms.fednova import FedNova
from unalike.algorithms.fedopt import FedAdagrad, FedAdam, FedYogi
from unalike.algorithms.fedper import FedPer
from unalike.algorithms.fedproto import FedProtoMethod
from unalike.algorithms.fedprox import FedProx
from unalike.algorithms.fedrep import FedRep
from unalike.algorithms.finetune import FineTune
from unalike.algorithms.krum import Krum
from unalike.algorithms.latent_disco import LatentDisco
from unalike.algorithms.lg_fedavg import LgFedAvg
from unalike.algorithms.local_dp import LocalDp
from unalike.algorithms.local_only import LocalOnly
from unalike.algorithms.median import Median
from unalike.algorithms.method import Method
from unalike.algorithms.moon import MoonMethod
from unalike.algorithms.norm_clip import NormClip
from unalike.algorithms.per_fedavg import PerFedAvgMethod
from unalike.algorithms.pfedme import PFedMeMethod
from unalike.algorithms.phase_shift import PhaseShiftMethod
from unalike.algorithms.pooled import Pooled
from unalike.algorithms.power_of_choice import PowerOfChoiceMethod
from unalike.algorithms.propfair import PropFair, PropFairLoss
from unalike.algorithms.qfedavg import QFedAvg
from unalike.algorithms.random_mask import RandomMaskMethod
from unalike.algorithms.scaffold import ScaffoldMethod
from unalike.algorithms.sign import SignMethod
from unalike.algorithms.stc import Stc
from unalike.algorithms.superfed import SuPerFedLM, SuPerFedMM
from unalike.algorithms.term import Term
from unalike.algorithms.tifl import Tifl
from unalike.algorithms.topk import TopKMethod
from unalike.algorithms.trimmed_mean import TrimmedMean


class FedAvgMethod(Method):
    """Local descent, then averaging by examples: the baseline of all methods."""

    paper = "McMahan et al. 2017, arXiv 1602.05629"


METHODS: dict[str, type[Method]] = {
    "fedavg": FedAvgMethod,
    "fedprox": FedProx,
    "scaffold": ScaffoldMethod,
    "feddyn": FedDynMethod,
    "moon": MoonMethod,
    "fednova": FedNova,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
    "fedep": FedEp,
    "feddisco": FedDisco,
    "latent_disco": LatentDisco,
    "aaggff_s": AAggFFS,
    "aaggff_d": AAggFFD,
    "afl": Afl,
    "qfedavg": QFedAvg,
    "term": Term,
    "propfair": PropFair,
    "propfair_loss": PropFairLoss,
    "fedmgda": FedMgda,
    "lg_fedavg": LgFedAvg,
    "superfed_mm": SuPerFedMM,
    "superfed_lm": SuPerFedLM,
    "fedper": FedPer,
    "fedrep": FedRep,
    "fedbn": FedBn,
    "apfl": ApflMethod,
    "pfedme": PFedMeMethod,
    "per_fedavg": PerFedAvgMethod,
    "fedproto": FedProtoMethod,
    "ditto": DittoMethod,
    "finetune": FineTune,
    "phase_shift": PhaseShiftMethod,
    "by_size": BySizeMethod,
    "power_of_choice": PowerOfChoiceMethod,
    "tifl": Tifl,
    "fedbuff": FedBuff,
    "fedaug": FedAug,
    "astraea": Astraea,
    "fedmix": FedMixMethod,
    "fedevg": FedEvgMethod,
    "fedcvae": FedCvae,
    "fedcgan": FedCgan,
    "median": Median,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
    "norm_clip": NormClip,
    "dp": CentralDp,
    "local_dp": LocalDp,
    "topk": TopKMethod,
    "random_mask": RandomMaskMethod,
    "stc": Stc,
    "eight_bit": EightBitMethod,
    "sign": SignMethod,
    "local_only": LocalOnly,
    "pooled": Pooled,
}
