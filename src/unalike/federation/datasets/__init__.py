"""Datasets that a configuration can name, one file each."""

from unalike.federation.datasets.adult import Adult
from unalike.federation.datasets.base import Dataset
from unalike.federation.datasets.berka import Berka
from unalike.federation.datasets.breast_cancer import BreastCancer
from unalike.federation.datasets.celeba import CelebA
from unalike.federation.datasets.cifar10 import Cifar10
from unalike.federation.datasets.cifar100 import Cifar100
from unalike.federation.datasets.diabetes import Diabetes
from unalike.federation.datasets.digits import Digits
from unalike.federation.datasets.fashion_mnist import FashionMnist
from unalike.federation.datasets.fed_isic import FedIsic
from unalike.federation.datasets.femnist import Femnist
from unalike.federation.datasets.heart import Heart
from unalike.federation.datasets.hub import Hub
from unalike.federation.datasets.medmnist import MedMnist
from unalike.federation.datasets.mnist import Mnist
from unalike.federation.datasets.mqp import Mqp
from unalike.federation.datasets.own import Files
from unalike.federation.datasets.reddit import Reddit
from unalike.federation.datasets.shakespeare import Shakespeare
from unalike.federation.datasets.speech_commands import SpeechCommands
from unalike.federation.datasets.tiny_imagenet import TinyImageNet

__all__ = ["DATASETS", "Dataset"]

DATASETS: dict[str, type[Dataset]] = {
    "adult": Adult,
    "berka": Berka,
    "breast_cancer": BreastCancer,
    "celeba": CelebA,
    "cifar10": Cifar10,
    "cifar100": Cifar100,
    "diabetes": Diabetes,
    "digits": Digits,
    "fashion_mnist": FashionMnist,
    "fed_isic": FedIsic,
    "femnist": Femnist,
    "files": Files,
    "heart": Heart,
    "hub": Hub,
    "medmnist": MedMnist,
    "mnist": Mnist,
    "mqp": Mqp,
    "reddit": Reddit,
    "shakespeare": Shakespeare,
    "speech_commands": SpeechCommands,
    "tiny_imagenet": TinyImageNet,
}
