"""The catalogue of metrics against what evaluations really record."""

import pytest
import torch

from unalike.errors import ConfigError
from unalike.metrics.catalogue import METRICS, STATISTICS, head, higher, metric
from unalike.metrics.classification import per_client
from unalike.metrics.fairness import summarise
from unalike.metrics.reconstruction import per_client as reconstructed


def test_every_metric_of_a_classifier_is_in_it():
    logits, labels = torch.randn(40, 7), torch.arange(40) % 7
    found = per_client(logits, labels, torch.arange(40) % 4, 4)
    assert set(found) - {"n"} <= set(METRICS)


def test_every_metric_of_an_autoencoder_is_in_it():
    found = reconstructed(torch.rand(6, 2), torch.arange(6) % 2, 2)
    assert set(found) - {"n"} <= set(METRICS)


def test_less_is_better_of_errors_alone():
    less = {name for name in METRICS if not higher(name)}
    adversaries = {"adversary", "fooled"}  # who guess what is to be hidden
    assert less == {"loss", "ece", "mce", "rmse", "mae", "reconstruction", "kl", *adversaries}
    assert not any(METRICS[name].share for name in less - adversaries)


def test_statistics_are_those_of_the_spread_over_clients():
    assert set(STATISTICS) <= set(summarise([0.1, 0.2], [1, 2]).as_dict())


def test_heads_have_their_unit():
    assert head("accuracy") == "accuracy %"
    assert head("top5") == "top-5 accuracy %"
    assert [head(name) for name in ("loss", "ece", "kl")] == ["loss", "ECE", "KL"]
    assert [head("f1", s) for s in ("mean", "std", "gini")] == ["F1 %", "std", "Gini"]


def test_a_metric_that_is_not_in_it_is_refused():
    with pytest.raises(ConfigError, match="unknown metric 'acuracy': did you mean 'accuracy'"):
        metric("acuracy")
