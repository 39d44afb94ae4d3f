"""The VAE as a task: its loss, its test, padding, noise, and a run that has no accuracy."""

import math
from dataclasses import replace

import pytest
import torch
from autoencoders import clients, vae
from federations import composed, distance, play, sampled
from torch import Tensor

from unalike import rng
from unalike.batches import Batch
from unalike.engine.transport import Opening
from unalike.errors import ConfigError
from unalike.federation.data import TEST, Examples
from unalike.metrics import reconstruction
from unalike.models.vae import BetaVAE
from unalike.parts.optim import Adam
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.experiment.fit import fit
from unalike.run.rounds import rounds
from unalike.run.summary import summarise
from unalike.tasks import Autoencoding
from unalike.tasks.autoencoding import terms

CONFIG = {
    "rounds": 2,
    "partition": {"name": "dirichlet", "clients": 4, "alpha": 0.5},
    "model": {"name": "vae", "hidden": [12], "beta": 4.0},
    "local": {"optimizer": "adam", "lr": 1e-3, "batch_size": 64},
    "split": {"new_clients": 1},
}


def batch(n: int = 6, real: int | None = None, key: int = 0) -> Batch:
    x = torch.rand(n, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(n) < (n if real is None else real)
    return Batch(x, torch.zeros(n, dtype=torch.long), mask, rng.key(key))


def test_terms_by_hand():
    """Two features, one latent variable: squares summed, and -1/2 (1 + log s2 - mu^2 - s2)."""
    out = torch.tensor([[0.5, 0.0]]), torch.tensor([[2.0]]), torch.tensor([[math.log(3) / 2]])
    error, divergence = terms(out, torch.tensor([[1.0, -1.0]]))
    assert error.item() == pytest.approx(0.25 + 1)
    assert divergence.item() == pytest.approx(-0.5 * (1 + math.log(3) - 4 - 3))


def test_divergence_is_zero_at_the_prior_only():
    """mu = 0 and sigma = 1."""
    x = torch.zeros(3, 2)
    mean, log_sigma = torch.tensor([[0.0], [0.1], [0.0]]), torch.tensor([[0.0], [0.0], [0.1]])
    _, divergence = terms((x, mean, log_sigma), x)
    assert divergence[0] == 0
    assert (divergence[1:] > 0).all()


def test_training_weighs_the_divergence_by_beta_and_testing_does_not():
    """loss(beta) = R + beta KL, with the same sampled z."""
    tasks = [vae(beta=b) for b in (0.0, 1.0, 10.0)]
    w = tasks[0].init(rng.key(0))
    r, one, ten = (float(t.loss(w, batch())[0]) for t in tasks)
    assert ten - r == pytest.approx(10 * (one - r))
    assert one > r
    tests = [t.each_loss(w, batch()) for t in tasks]
    assert torch.equal(tests[0], tests[2])
    assert not torch.allclose(tests[0].mean(), torch.tensor(ten, dtype=torch.float64), rtol=1e-2)


def test_loss_is_a_mean_over_rows_of_a_sum_over_features():
    """Twice the rows cost the same, each feature counts in full."""
    task = vae(beta=0.0)
    w = task.init(rng.key(0))
    noise = rng.normal(rng.fold_in(batch().key, 9), 6, 2).double()
    again, _, _ = task.network.eval(w, batch().x, None, noise)
    expected = ((again - batch().x) ** 2).sum((1, 2, 3)).mean()
    assert float(task.loss(w, batch())[0]) == pytest.approx(float(expected))


def test_noise_comes_from_the_key():
    """The same key, the same loss; another key, another."""
    task = vae()
    w = task.init(rng.key(0))
    first, again, other = (float(task.loss(w, batch(key=k))[0]) for k in (0, 0, 1))
    assert first == again != other


def test_padding_is_no_part_of_the_loss():
    """Nor does it change the noise of the rows before it."""
    task = vae(beta=3.0)
    w = task.init(rng.key(0))
    long, short = batch(6, real=4), batch(6)
    short = Batch(short.x[:4], short.y[:4], short.real[:4], short.key)
    assert float(task.loss(w, long)[0]) == pytest.approx(float(task.loss(w, short)[0]), rel=1e-12)
    assert torch.allclose(task.each_loss(w, long)[:4], task.each_loss(w, short))


def test_judged_by_samples_or_by_means():
    """Means need no noise; samples cost more on average, since z is not what was meant."""
    task = vae()
    mean = replace(task, sampled=False)
    w = task.init(rng.key(0))
    x = batch().x
    assert (task.draws, mean.draws) == (2, 0)
    still = mean.outputs(w, x, torch.zeros(6, 0))
    assert torch.equal(still, task.outputs(w, x, torch.zeros(6, 2)))
    assert not torch.equal(still, task.outputs(w, x, torch.ones(6, 2)))


def test_gradients_reach_encoder_and_decoder():
    """The sample is reparametrised."""
    task = vae()
    w = {k: v.requires_grad_() for k, v in task.init(rng.key(0)).items()}
    task.loss(w, batch())[0].backward()
    assert all(float(v.grad.abs().sum()) > 0 for k, v in w.items() if k.endswith("weight"))


@pytest.mark.parametrize(
    "methods",
    [
        ["fedavg"],
        ["feddisco"],
        ["scaffold"],
        [("fedprox", {"mu": 0.1}), "fedadam"],
        [("superfed_mm", {"start": 0.0})],
        ["aaggff_d"],
        ["lg_fedavg"],
    ],
    ids=str,
)
def test_both_engines_agree(methods):
    """Ragged clients, half of them in a round; the loss that weights need is sampled, too."""
    task, data = vae(beta=2.0), clients(sizes=(5, 9, 30, 270))
    recipe = composed(task, data, *methods, **sampled(0.5, 1.5))
    one, all_ = (
        play(recipe, data, 3, engine=e, batch_size=90, chunk=1 + 9 * (e == "vectorized"))
        for e in ("sequential", "vectorized")
    )
    assert distance(one.states[-1], all_.states[-1]) < 1e-9


def test_training_lowers_the_loss():
    """Eight rounds of Adam on a small federation."""
    task, data = vae(torch.float32), clients(torch.float32, (40, 60))
    played = play(
        composed(task, data, "fedavg", opt=Adam(1e-2), epochs=3.0), data, 8, batch_size=30
    )
    every = Batch(data.examples.x, data.examples.y, torch.ones(100, dtype=torch.bool), rng.key(0))
    before, after = (
        float(task.each_loss(s.servers[0].x, every).mean())
        for s in (played.states[0], played.states[-1])
    )
    assert after < 0.95 * before


def test_metrics_of_clients():
    """Means over rows; a client without rows is undefined, and so is one that diverged."""
    rows = torch.tensor([[1.0, 0.5], [3.0, 0.5], [torch.inf, 1.0]])
    found = reconstruction.per_client(rows, torch.tensor([0, 0, 2]), 3)
    assert found["loss"][0] == 2.5
    assert found["reconstruction"][0] == 2
    assert found["kl"].tolist()[::2] == [0.5, 1.0]
    assert found["loss"].isnan().tolist() == [False, True, True]
    assert found["n"].tolist() == [2, 0, 1]


def judged(engine: str, method: dict) -> dict:
    raw = {**CONFIG, "method": method, "engine": {"kind": engine}}
    made = experiment(parse(raw))
    *_, last = rounds(made)
    return last.record["metrics"]


@pytest.mark.parametrize(
    "method", [{"name": "fedavg"}, {"name": "lg_fedavg"}, {"name": "superfed_mm", "start": 0.0}]
)
def test_sections_have_losses_and_no_accuracy(method):
    """Local, global and new clients, the same by both engines: noise belongs to the row."""
    one, all_ = judged("sequential", method), judged("vectorized", method)
    assert set(one) == {"validation", "local", "global", "new"}
    for section, metrics in one.items():
        assert set(metrics) == {"loss", "reconstruction", "kl"}
        for name, spread in metrics.items():
            assert spread["mean"] == pytest.approx(all_[section][name]["mean"], rel=1e-4)
        parts = metrics["reconstruction"]["mean"] + metrics["kl"]["mean"]
        assert metrics["loss"]["mean"] == pytest.approx(parts)


def test_a_test_takes_beta_one_whatever_the_training():
    """The untrained model has the same test loss under every beta, and the sampled one its own."""

    def first(**model) -> float:
        made = experiment(parse({**CONFIG, "model": {"name": "vae", "hidden": [12], **model}}))
        return made.evaluator(made.loop.begin(made.w)).spread["global"]["loss"]["mean"]

    assert first(beta=1.0) == first(beta=10.0)
    assert first(beta=1.0) != first(judge="mean")


def test_global_loss_by_hand():
    """The mean over all test rows of R + KL, with the examiner's own noise."""
    made = experiment(parse(CONFIG))
    state = made.loop.begin(made.w)
    known = made.federation.n_clients
    order = made.federation.rows(TEST).order[: made.federation.rows(TEST).start[known]]
    x, noise = made.federation.examples.x[order], made.simulation.examiner.noise[order]
    rows = made.recipe.algorithm.task.outputs(made.w, x, noise).double().sum(1)
    found = made.evaluator(state)
    assert found.spread["global"]["loss"]["mean"] == pytest.approx(float(rows.mean()), rel=1e-6)
    assert not found.reliability


def test_evaluation_repeats():
    """Noise is drawn once for a seed, not at every evaluation; other seeds draw other noise."""
    made = experiment(parse(CONFIG))
    state = made.loop.begin(made.w)
    found = made.evaluator(state).clients
    assert made.evaluator(state).clients == found
    made.simulation.seed = 5
    made.simulation.begin(Opening(made.recipe, made.w))
    assert made.evaluator(state).clients != found


def test_summary_selects_by_loss():
    """The lowest, and a target is reached from above."""
    made = experiment(parse({**CONFIG, "rounds": 3, "evaluation": {"target": 1000.0}}))
    records = [s.record for s in rounds(made)]
    records[2]["metrics"]["validation"]["loss"]["mean"] = 99.0
    summary = summarise(records, made.config.evaluation, "loss")
    losses = [r["metrics"]["validation"]["loss"]["mean"] for r in records]
    assert summary["selected"]["round"] == 1 + losses.index(min(losses))
    assert summary["selected_on"] == "validation loss, mean over clients"
    assert summary["target"]["loss"] == 1000.0
    assert summary["target"]["round"] == 1


@pytest.mark.parametrize("select", ["accuracy", "f1", "auroc"])
def test_selection_by_what_does_not_exist(select):
    """Refused before the first round."""
    with pytest.raises(ConfigError, match=f"'{select}', which an autoencoder does not have"):
        experiment(parse({**CONFIG, "evaluation": {"select": select}}))


def test_a_target_above_one_is_a_loss():
    """An accuracy cannot be that high."""
    raw = {**CONFIG, "model": {"name": "mlp"}, "evaluation": {"target": 90.0}}
    with pytest.raises(ConfigError, match=r"target is 90, and an accuracy is at most 1"):
        experiment(parse(raw))


def test_symbols_cannot_be_reconstructed():
    """They have no distance."""
    symbols = Examples(torch.zeros(4, 5, dtype=torch.long), torch.zeros(4).long(), 2, name="text")
    module = BetaVAE().build((5,), 2)
    with pytest.raises(ConfigError, match="reconstructs numbers, and the examples of 'text'"):
        fit(module, symbols, "model 'vae'", learn=Autoencoding)


def test_a_method_for_classifiers_is_refused():
    """Its energies are logits."""
    with pytest.raises(ConfigError, match="needs a multi-class task"):
        experiment(parse({**CONFIG, "method": {"name": "fedevg"}}))


def test_labels_are_of_no_effect():
    """Shuffled labels, the same partition: the same models."""

    def trained(y: Tensor) -> dict[str, Tensor]:
        data = clients(torch.float32, (20, 30))
        data = data._replace(examples=replace(data.examples, y=y))
        return play(composed(vae(torch.float32), data, "fedavg"), data, 2).x

    a, b = trained(torch.zeros(50, dtype=torch.long)), trained(torch.arange(50) % 3)
    assert all(torch.equal(a[k], b[k]) for k in a)
