"""Comparisons: methods on partitions over seeds, at equal budgets, with honest statistics."""

from unalike.callable_package import make_callable

make_callable(__name__, "unalike.comparing:compare")
