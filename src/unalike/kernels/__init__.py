"""Convolutions and pooling for many clients at once on a GPU.

Inside vmap a convolution whose weights differ from client to client becomes a grouped convolution
in PyTorch, for which cuDNN has no fast kernel. Here it is a product of matrices batched over
clients, written in Triton. Nothing in this package knows about clients: images and weights simply
have one more axis.

``layers``     what takes the place of ``nn.Conv2d`` and ``nn.MaxPool2d`` in a network
``functions``  derivatives and vmap rules
``operators``  the operators themselves, by these kernels or by PyTorch
``launch``     how a convolution is laid out for its kernel; ``plan`` how it is cut up
``device``     the kernels
"""
