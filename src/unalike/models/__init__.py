"""The networks, by name; importing this package does not import torch."""

from unalike.models.audio import M5
from unalike.models.base import Model
from unalike.models.cnn import LGCNN, FedDiscoCNN, McMahanCNN, TwoCNN
from unalike.models.dense import LGMLP, MLP, FedEPMLP, McMahan2NN, TwoNN
from unalike.models.fltk_cnn import CifarCNN, FmnistCNN, MnistCNN
from unalike.models.leaf import LeafCNN
from unalike.models.linear import Logistic
from unalike.models.lstm import StackedLSTM
from unalike.models.mobilenet import MobileNet, MobileNetSmall
from unalike.models.resnet import ResNet9
from unalike.models.resnet10 import ResNet10
from unalike.models.vae import BetaVAE
from unalike.models.vgg import VGG9

# One tensor in, logits out, unless a model is made for a task of its own.
MODELS: dict[str, type[Model]] = {
    model.name: model
    for model in (
        Logistic,
        MLP,
        TwoNN,
        McMahan2NN,
        FedEPMLP,
        LGMLP,
        TwoCNN,
        McMahanCNN,
        LGCNN,
        FedDiscoCNN,
        MnistCNN,
        FmnistCNN,
        CifarCNN,
        LeafCNN,
        VGG9,
        ResNet9,
        ResNet10,
        MobileNet,
        MobileNetSmall,
        M5,
        StackedLSTM,
        BetaVAE,
    )
}

__all__ = ["MODELS", "Model"]
