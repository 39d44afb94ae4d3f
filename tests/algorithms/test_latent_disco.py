"""Weights from latent distances: printed numbers, who measures when, and encoders from files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from autoencoders import clients, vae
from federations import (
    cohort,
    composed,
    distance,
    drafted,
    network_task,
    play,
    same,
    sampled,
    walk,
)
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor

from unalike import rng
from unalike.algorithms.latent_disco import LatentDisco
from unalike.batches import Batch, Batches
from unalike.draws import Draw, Extent
from unalike.errors import ConfigError, RunError
from unalike.parts.mixing.disco import Disco
from unalike.parts.mixing.latent_disco import AskedLatentDisco, ReportedLatentDisco
from unalike.parts.mixing.latents import LatentDistance, Latents, architecture, encoder_of
from unalike.parts.mixing.wasserstein import w1
from unalike.parts.optim import Adam
from unalike.parts.topology import Clusters, Complete, Ring, Rotating
from unalike.run.folder.earlier_runs import read_model

A, B, C = [-1.5, -0.5, 0, 0.5, 1.5], [0.5, 1, 1.5, 2, 2.5], [-0.2, -0.1, 0, 0.1, 0.2]
THREE = [(A, B), (C, A), ([x + 1 for x in A], B)]
DISTANCES = (0.872544, 0.459482, 1.254008)
BIG = {"batch_size": 100}
EVERY, ONCE = {"refresh": "every"}, {"refresh": "after_warmup"}


def embedding(columns: tuple[list[float], list[float]]) -> Tensor:
    return torch.tensor(columns, dtype=torch.float64).T


def test_distances_of_three_clients():
    """The mean over two latent dimensions."""
    found = [float(LatentDistance().mean(embedding(c))) for c in THREE]
    assert found == pytest.approx(DISTANCES, abs=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (0.1, 0.0, (0.331913, 0.387627, 0.280461)),
        (0.5, 0.0, (0, 1, 0)),
        (0.1, 0.1, (0.332322, 0.371986, 0.295692)),
        (0.0, 0.0, (1 / 3, 1 / 3, 1 / 3)),
    ],
)
def test_weights_of_three_clients(a, b, expected):
    """Equal sizes, distances as they are: dividing them by their sum would show."""
    asked = AskedLatentDisco(Latents({}), Disco(a, b))
    survey = {"latent": torch.tensor(DISTANCES)[:, None]}
    found = asked.weights((), cohort([10] * 3, survey=survey))
    assert found.p.tolist() == pytest.approx(expected, abs=2e-6)
    assert found.note == ""
    assert found.logged["d"].tolist() == pytest.approx(DISTANCES)
    reported = ReportedLatentDisco(LatentDistance(), Disco(a, b))
    p, *_ = reported.weights(reported.init(3), cohort([10] * 3, latent=DISTANCES))
    assert p.tolist() == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("policy", "expected"), [("size", (1 / 3, 1 / 3, 1 / 3)), ("one_hot_min_d", (0, 1, 0))]
)
def test_all_zero_at_a_large_a(policy, expected):
    """a = 0.9 leaves nobody a weight."""
    rule = ReportedLatentDisco(LatentDistance(), Disco(0.9, 0.0, policy))
    found = rule.weights(rule.init(3), cohort([10] * 3, latent=DISTANCES))
    assert found.p.tolist() == pytest.approx(expected)
    assert "every client's weight was zero" in found.note


def test_all_zero_as_an_error():
    """Names the distances."""
    rule = ReportedLatentDisco(LatentDistance(), Disco(0.9, 0.0, "error"))
    with pytest.raises(RunError, match=r"from 0\.4595 to 1\.254"):
        rule.weights(rule.init(3), cohort([10] * 3, latent=DISTANCES))


def test_normalised_distances():
    """Divided by their sum over the cohort."""
    d = np.array(DISTANCES) / sum(DISTANCES)
    u = 1 / 3 - 0.5 * d
    rule = ReportedLatentDisco(LatentDistance(), Disco(0.5, 0.0), normalise=True)
    p, *_ = rule.weights(rule.init(3), cohort([10] * 3, latent=DISTANCES))
    assert p.tolist() == pytest.approx(u.clip(0) / u.clip(0).sum(), abs=1e-9)


def used(rule: ReportedLatentDisco, reports: list[dict[int, float]]) -> list[dict[int, float]]:
    """The distances a rule goes by in each round; weights 1/n - d tell them."""
    memory, found = rule.init(4), []
    for t, said in enumerate(reports):
        ids = sorted(said)
        who = cohort([1.0] * len(ids), ids, n=4, t=t, latent=[said[i] for i in ids])
        p, memory, *_ = rule.weights(memory, who)
        assert float(p.sum()) == pytest.approx(1)
        found.append({i: float(memory.d[i]) for i in ids})
    return found


def test_every_round():
    """The newest report counts."""
    rule = ReportedLatentDisco(LatentDistance(), Disco(0.1, 0.0), every=1)
    reports = [{0: 0.1, 1: 0.2}, {0: 0.3, 1: 0.4}, {1: 0.5, 2: 0.6}]
    assert used(rule, reports) == reports


def test_every_second_round():
    """A distance is renewed when it is two rounds old; one of an absent client when it is back."""
    rule = ReportedLatentDisco(LatentDistance(), Disco(0.1, 0.0), every=2)
    reports = [{0: 0.1, 1: 0.1}, {0: 0.2, 2: 0.2}, {0: 0.3, 1: 0.3}, {2: 0.4, 3: 0.4}]
    assert used(rule, reports) == [
        {0: 0.1, 1: 0.1},
        {0: 0.1, 2: 0.2},
        {0: 0.3, 1: 0.3},
        {2: 0.4, 3: 0.4},
    ]


def test_once_after_warming_up():
    """Sizes first; then everybody's first report, for good."""
    rule = ReportedLatentDisco(LatentDistance(), Disco(1.0, 0.0), warmup=2, every=0)
    memory = rule.init(2)
    for t in range(2):
        p, memory, *_ = rule.weights(memory, cohort([1, 3], t=t, latent=[0.1, 0.2]))
        assert p.tolist() == [0.25, 0.75]
    for t, said in ((2, [0.05, 0.25]), (3, [9.0, 9.0])):
        p, memory, *_ = rule.weights(memory, cohort([1, 3], t=t, latent=said))
        assert p.tolist() == pytest.approx([0.2 / 0.7, 0.5 / 0.7])


@pytest.mark.parametrize("embed", ["sample", "mean"])
@pytest.mark.parametrize("distance_", ["exact", "sampled"])
def test_gauge_is_the_distance_of_the_encoded_examples(embed, distance_):
    """Of all examples of the client, once each, with the received model."""
    task, data = vae(), clients()
    w = task.init(rng.key(3))
    rows = data.rows.of(2)
    index = torch.cat([rows, rows[:2]]).reshape(4, 8)  # padded with the first two
    real = torch.arange(32).reshape(4, 8) < 30
    draw = Draw(index, real, torch.zeros_like(real), torch.zeros(4, dtype=torch.int64))
    extent = Extent(np.array([[4]]))
    whole = Batches(data.examples.x, data.examples.y, draw, rng.key(5), extent)
    gauge = LatentDistance(embed, distance_, 500)
    steps = [whole.batch(t) for t in range(4)]
    z = torch.cat([task.latents(w, b, embed == "sample") for b in steps])[:30]
    expected = w1(z, None, gauge.reference).mean()
    assert float(gauge(task, w, whole)) == pytest.approx(float(expected), rel=1e-6)
    if embed == "mean":
        own = {k[8:]: v for k, v in w.items() if k.startswith("encoder.")}
        assert torch.allclose(z, task.encoder.eval(own, data.examples.x[rows])[0])


def test_sampled_latents_are_spread_around_the_mean():
    """By the standard deviation that the encoder gives."""
    task = vae()
    w = task.init(rng.key(0))
    x = torch.rand(1, 1, 4, 4, dtype=torch.float64).expand(20_000, 1, 4, 4)
    batch = Batch(x, torch.zeros(len(x)), torch.ones(len(x), dtype=torch.bool), rng.key(1))
    z, mean = (task.latents(w, batch, sampled) for sampled in (True, False))
    own = {k[8:]: v for k, v in w.items() if k.startswith("encoder.")}
    std = task.encoder.eval(own, x[:1])[1].exp()[0]
    assert torch.allclose(z.mean(0), mean[0], atol=0.05)
    assert torch.allclose(z.std(0), std, rtol=0.05)


@pytest.mark.parametrize("refresh", [EVERY, {"refresh": "every", "every": 3}, ONCE])
def test_both_engines_agree(refresh):
    """With clients of very different size, so that they share no vmapped call."""
    task, data = vae(), clients(sizes=(5, 9, 30, 300, 2, 280))
    recipe = composed(task, data, ("latent_disco", refresh), opt=Adam(1e-2), **sampled(0.7))
    one, all_ = (
        play(recipe, data, 3, engine=e, **BIG, chunk=2) for e in ("sequential", "vectorized")
    )
    assert distance(one.states[-1], all_.states[-1]) < 1e-7
    assert torch.allclose(one.rounds[-1].weights, all_.rounds[-1].weights, atol=1e-6)


def test_clients_report_the_received_model():
    """The first report is about the initial model, before any training."""
    task, data = vae(), clients()
    recipe = composed(task, data, ("latent_disco", EVERY), opt=Adam(1e-2))
    played = play(recipe, data, 2, **BIG)
    first, second = (s.mixing[0].d for s in played.states[1:])
    again = play(composed(task, data, ("latent_disco", EVERY), opt=Adam(5e-2)), data, 1, **BIG)
    assert torch.equal(first, again.states[1].mixing[0].d)
    assert not torch.allclose(first, second)
    plain = play(composed(task, data, "fedavg", opt=Adam(1e-2)), data, 1, **BIG)
    extra = played.rounds[0].traffic.up - plain.rounds[0].traffic.up
    assert extra == 4 * data.n_clients  # one number a client


@pytest.mark.parametrize("settings", [EVERY, ONCE, {"refresh": "after_warmup", "warmup": 9}])
def test_without_a_it_is_fedavg(settings):
    """Or before the warm-up is over."""
    task, data = vae(), clients()
    a = {} if "warmup" in settings else {"a": 0.0}
    plain, latent = (
        play(composed(task, data, m, opt=Adam(1e-2), rounds=10), data, 3, **BIG)
        for m in ("fedavg", ("latent_disco", {**settings, **a}))
    )
    assert distance(plain.server, latent.server) < 1e-9


def saved(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """An untrained VAE in a file."""
    task = vae(torch.float32)
    w = task.init(rng.key(1))
    save_file(w, folder / "model.safetensors")
    return folder, w


def test_encoder_from_a_file(tmp_path):
    """The encoder alone travels, to every client, once; a folder or a file names it."""
    folder, w = saved(tmp_path)
    task, data = network_task("dense")  # a classifier is weighted by it
    for place in (folder, folder / "model.safetensors"):
        recipe = composed(task, data, ("latent_disco", {"encoder": str(place)}), read=read_model)
        played = play(recipe, data, 2)
    encoder = sum(v.numel() for k, v in w.items() if k.startswith("encoder."))
    asked = played.loop.asked
    assert asked.down == 4 * encoder * data.n_clients
    assert asked.up == 4 * data.n_clients
    assert asked.messages == 2 * data.n_clients
    d = played.states[0].survey["latent"][:, 0].double()
    share = torch.from_numpy(data.rows.sizes / data.rows.sizes.sum())
    expected = Disco(0.5, 0.0)(share, d)[0].float()
    for done in played.rounds:
        assert torch.allclose(done.weights, expected, atol=1e-6)


def test_asked_with_means_is_the_distance_of_the_means(tmp_path):
    """Computed apart, from the weights in the file."""
    folder, w = saved(tmp_path)
    task, data = network_task("dense")
    settings = {"encoder": str(folder), "embed": "mean"}
    played = play(composed(task, data, ("latent_disco", settings), read=read_model), data, 0)
    x = data.examples.x[data.rows.of(3)].flatten(1)
    h = torch.relu(x @ w["encoder.layers.1.weight"].T + w["encoder.layers.1.bias"])
    h = torch.relu(h @ w["encoder.layers.3.weight"].T + w["encoder.layers.3.bias"])
    z = h @ w["encoder.mean.weight"].T + w["encoder.mean.bias"]
    assert float(played.states[0].survey["latent"][3]) == pytest.approx(
        float(w1(z).mean()), rel=1e-5
    )


def test_survey_depends_on_the_seed_alone(tmp_path):
    """Sampled latents come from a stream of their own, client by client."""
    folder, _ = saved(tmp_path)
    task, data = network_task("dense")
    recipe = composed(task, data, ("latent_disco", {"encoder": str(folder)}), read=read_model)
    engines = [
        play(recipe, data, 0, engine=e).states[0].survey for e in ("sequential", "vectorized")
    ]
    assert torch.equal(engines[0]["latent"], engines[1]["latent"])
    other = play(recipe, data, 0, seed=1).states[0].survey["latent"]
    assert not torch.equal(other, engines[0]["latent"])


@pytest.mark.parametrize("topology", [Clusters(2), Ring(), Complete(), Rotating()])
def test_fixed_distances_work_without_a_server(tmp_path, topology):
    """Everybody holds the distances of those it hears."""
    folder, _ = saved(tmp_path)
    task, data = network_task("dense")
    settings = ("latent_disco", {"encoder": str(folder), "a": 0.1})
    played = play(composed(task, data, settings, topology=topology, read=read_model), data, 2)
    assert all(torch.isfinite(x).all() for s in played.states[-1].servers for x in s.x.values())


TWO_STAGE = ("latent_disco", {"a": 0.1})


def test_the_program_of_two_stages():
    """All others without the weights, then the same again with them; each has all the rounds."""
    task, data = vae(), clients()
    draft = drafted(task, data, TWO_STAGE, "fedprox", opt=Adam(1e-2), rounds=3)
    first, second = draft.program()
    assert (first.rounds, second.rounds) == (3, 3)
    assert (first.start, second.start) == ("fresh", "fresh")
    assert first.recipe == composed(task, data, "fedprox", opt=Adam(1e-2))
    assert isinstance(second.recipe.mixing, AskedLatentDisco)
    assert second.recipe.mixing.question.payload == {}
    assert second.recipe.mixing.fixed


def test_the_second_stage_takes_the_encoder_of_the_first():
    """And starts from the initial weights; an encoder that is given is kept."""
    task, data = vae(), clients()
    draft = drafted(task, data, TWO_STAGE, opt=Adam(1e-2), rounds=2)
    played = walk(draft.program(), data, **BIG)
    trained = played.states[2].servers[0].x
    rule = played.loop.recipe.mixing
    assert same(rule.question.payload, encoder_of(trained, "here"))
    assert rule.inherit(task.init(rng.key(5))).question is rule.question
    alone = composed(task, data, TWO_STAGE, opt=Adam(1e-2)).inherit(trained)
    other = play(alone, data, 0, **BIG)
    state = other.loop.begin(other.simulation.w)
    for t in (2, 3):
        state, _ = other.loop.advance(state, t)
    assert same(state.servers[0].x, played.x)
    weights = [done.weights.tolist() for done in played.rounds]
    assert weights[0] == weights[1] != weights[2] == weights[3]


def test_two_first_stages_are_one_too_many():
    """A warm start and an encoder to be trained."""
    task, data = vae(), clients()
    warm = ("lg_fedavg", {"warm_start": 1, "shared": ["encoder."]})
    with pytest.raises(ConfigError, match="each of them begins with its own stage; keep one"):
        composed(task, data, warm, TWO_STAGE)


def test_architecture_is_read_from_shapes():
    """Inputs, hidden units, latent variables."""
    w = vae().init(rng.key(0))
    assert architecture(encoder_of(w, "here")) == (16, [7, 5], 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p / "nowhere", "should be a trained model but contains none"),
        (lambda p: _write(p / "text.safetensors", b"nonsense"), "not a safetensors file"),
        (lambda p: _save(p / "a.safetensors", {"w": torch.ones(1)}), "holds no autoencoder"),
        (
            lambda p: _save(
                p / "b.safetensors",
                {
                    "encoder.layers.1.weight": torch.ones(3, 99),
                    "encoder.mean.weight": torch.ones(2, 3),
                },
            ),
            "takes 99 features, these data have 16",
        ),
    ],
)
def test_bad_encoders(tmp_path, make, message):
    """Each in one sentence."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=message):
        composed(task, data, ("latent_disco", {"encoder": str(make(tmp_path))}), read=read_model)


def _write(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def _save(path: Path, tensors: dict[str, Tensor]) -> Path:
    save_file(tensors, path)
    return path


def test_refusals():
    """What cannot be measured is said before anything runs."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=r"must be an autoencoder: set model\.name"):
        composed(task, data, ("latent_disco", EVERY))
    with pytest.raises(ConfigError, match="needs an autoencoder, and this model is not one"):
        composed(task, data, "latent_disco")
    with pytest.raises(ConfigError, match="cannot be read here"):
        composed(task, data, ("latent_disco", {"encoder": "run"}))
    with pytest.raises(ConfigError, match="needs one server"):
        composed(vae(), clients(), ("latent_disco", ONCE), topology=Ring())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refresh": "every", "encoder": "x"}, 'encoder belongs to refresh = "two_stage"'),
        ({"every": 2}, 'every belongs to refresh = "every"'),
        ({"refresh": "every", "warmup": 3}, 'warmup belongs to refresh = "after_warmup"'),
        ({"draws": 10}, 'draws belongs to w1 = "sampled"'),
        ({"refresh": "sometimes"}, "'two_stage', 'every' or 'after_warmup'"),
    ],
)
def test_bad_settings(settings, message):
    """Settings without effect are refused like wrong ones."""
    with pytest.raises(ValidationError, match=message):
        LatentDisco(**settings)
