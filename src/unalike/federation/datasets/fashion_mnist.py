"""Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017)."""

from typing import ClassVar

from unalike.federation.datasets.mnist_like import MnistLike


class FashionMnist(MnistLike):
    """60,000 pictures of clothes, 28 x 28 pixels, 10 classes."""

    title: ClassVar[str] = "fashion_mnist"
    npz: ClassVar[str] = "fashion_mnist.npz"
    places: ClassVar[tuple[str, ...]] = (
        "fashion_mnist",
        "fashion-mnist",
        "FashionMNIST/raw",
        "FashionMNIST",
    )
    files: ClassVar[str] = (
        "fashion_mnist.npz or the four idx files (train-images-idx3-ubyte.gz and so on)"
    )
    hub_name: ClassVar[str] = "zalando-datasets/fashion_mnist"
    class_names: ClassVar[tuple[str, ...]] = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
