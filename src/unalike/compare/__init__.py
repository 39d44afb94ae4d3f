"""Comparisons: methods on partitions over seeds, at equal budgets, with honest statistics."""
