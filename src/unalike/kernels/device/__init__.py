"""The kernels themselves, written in Triton and compiled for a GPU when first launched."""
