"""What a site would send under a recipe, before it joins: every message, tensor by tensor."""

from collections.abc import Iterator

from unalike import rng, tree
from unalike.channel import Ragged
from unalike.deploy.setup.joining import hello, refuse_simulated
from unalike.deploy.site.policy import Policy
from unalike.engine.traffic.messages import messages_of
from unalike.federation.data import Examples
from unalike.kinds import CLASSES, of_classes
from unalike.run.configuration.config import Config
from unalike.run.experiment.cadence import as_set
from unalike.run.experiment.program import program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.tree import Tree


def preview(config: Config, examples: Examples, policy: Policy, sites: int = 2) -> Iterator[str]:
    """Lines for a person; ``sites`` is a guess, and changes no message."""
    refuse_simulated(config)
    shape = expected(examples, sites)
    yield "hello, once:"
    for name, value in hello(examples, policy.tell).items():
        yield f"  {name}: {value}"
    d = shape.features[0]
    if examples.pending.columns:
        yield f"for filling gaps, once: how many training rows have each of {d} levels and numbers,"
        yield "  and if a number is missing anywhere, 33 times how many values are below a bound"
    if examples.pending.scale != "none":
        yield f"for scaling, once: {d} sums and {d} sums of squares over training rows"
    if examples.ranges is not None:
        yield "for the target, once: 66 times how many values are at most some bounds, then its sum"
        yield "  and its sum of squares over training rows"
    made = task(config, shape.blank())
    w = made.init(rng.key(0))
    stages, _ = program(config, made, shape)
    for number, stage in enumerate(stages, 1):
        recipe = stage.recipe
        if len(stages) > 1:
            yield f"stage {number}, {stage.rounds} rounds:"
        for question in recipe.survey:
            yield f"survey, once, '{question.name}': {question.reveals}"
        like = messages_of(recipe, w, rng.key(0))
        told = recipe.algorithm.server_init(w, rng.key(0))
        numbers = sorted({"examples", "steps", *recipe.needs} - {"gram", "sqnorm"})
        if recipe.topology.local:
            yield f"to each neighbour, each round of {stage.rounds}:"
            yield from _listed(tree.row(recipe.algorithm.tells(tree.stack([told])), 0))
        elif config.deploy.secure_aggregation:
            yield f"upload, each round of {stage.rounds}, masked: the coordinator sees only the sum"
            numbers += ["the length of the update", "a power of two for each tensor"]
            yield from _listed(like.wire)
        else:
            yield f"upload, each round of {stage.rounds}:"
            yield from _listed(like.wire)
        if recipe.guarantee is not None and recipe.guarantee.local:
            of = {"seed": "the seed, which all know", "secret": "a secret of this site's own"}
            yield f"  with noise from {of[config.deploy.noise]}"
        if recipe.topology.host(0, sites) is not None:
            yield f"to the next server, every {sites} rounds, {tree.size_bytes(told):,} bytes"
        yield f"  and numbers: {', '.join(numbers)}, and how much was computed"
    if config.topology.name != "star":
        yield "test results: to nobody; they stay in this peer's own records"
        yield "never: rows, labels, personal models, what this peer keeps between rounds"
        return
    metrics = ", ".join(getattr(type(made), "metrics", ("metrics",)))
    often = as_set(config).every
    every = f"every {f'{often} rounds' if often > 1 else 'round'}, on this site's rows"
    yield f"test results, {every}: n, {metrics}"
    yield "never: rows, labels, personal models, what this site keeps between rounds"


def expected(examples: Examples, sites: int) -> Shape:
    """The shape of all sites' data, as far as one site's own tell: others may have more classes."""
    x, y = examples.x, examples.y
    shape = Shape(
        sites,
        max(2, examples.classes),
        of_classes(max(2, examples.classes)) if examples.kind in CLASSES else examples.kind,
        tuple(x.shape[1:]),
        tuple(y.shape[1:]),
        str(x.dtype).removeprefix("torch."),
    )
    return shape if examples.ranges is None else shape._replace(target_dtype="float32")


def _listed(sent: Tree) -> Iterator[str]:
    parts = tree.named(sent, lambda x: isinstance(x, Ragged))
    for name, part in parts.items():
        x, most = (part.data, "at most ") if isinstance(part, Ragged) else (part, "")
        form = f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
        yield f"  {name}: {form}, {most}{x.numel() * x.element_size():,} bytes"
    most = "at most " if any(isinstance(part, Ragged) for part in parts.values()) else ""
    held = [p.data if isinstance(p, Ragged) else p for p in parts.values()]
    yield f"  {most}{tree.size_bytes(held):,} bytes in all"
