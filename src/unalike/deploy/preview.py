"""What a site would send under a recipe, before it joins: every message, tensor by tensor."""

from collections.abc import Iterator

from unalike import rng, tree
from unalike.deploy.joining import hello, refuse_simulated
from unalike.engine.messages import messages_of
from unalike.federation.data import Examples
from unalike.run.build import program, task
from unalike.run.config import Config
from unalike.run.shape import Shape
from unalike.tree import Tree


def preview(config: Config, examples: Examples, sites: int = 2) -> Iterator[str]:
    """Lines for a person; ``sites`` is a guess, and changes no message."""
    refuse_simulated(config)
    x, y = examples.x, examples.y
    shape = Shape(
        sites,
        examples.classes,
        examples.kind,
        tuple(x.shape[1:]),
        tuple(y.shape[1:]),
        str(x.dtype).removeprefix("torch."),
    )
    yield "hello, once:"
    for name, value in hello(examples).items():
        yield f"  {name}: {value}"
    d = shape.features[0]
    if examples.pending.columns:
        yield f"for filling gaps, once: how often {d} levels and numbers occur in training rows,"
        yield "  and if a number is missing anywhere, 33 times how many values are below a bound"
    if examples.pending.scale != "none":
        yield f"for scaling, once: {d} sums and {d} sums of squares over training rows"
    made = task(config, shape.blank())
    w = made.init(rng.key(0))
    stages, _ = program(config, made, shape)
    for number, stage in enumerate(stages, 1):
        recipe = stage.recipe
        if len(stages) > 1:
            yield f"stage {number}, {stage.rounds} rounds:"
        for question in recipe.mixing.survey:
            yield f"survey, once, '{question.name}': {question.reveals}"
        like = messages_of(recipe, w, rng.key(0))
        told = sorted({"examples", "steps", *recipe.needs} - {"gram", "sqnorm"})
        if config.deploy.secure_aggregation:
            yield f"upload, each round of {stage.rounds}, masked: only the sum is seen"
            told += ["the length of the update", "a power of two for each tensor"]
        else:
            yield f"upload, each round of {stage.rounds}:"
        yield from _listed(like.wire)
        yield f"  and numbers: {', '.join(told)}, and how much was computed"
    metrics = ", ".join(getattr(type(made), "metrics", ("metrics",)))
    yield f"verdicts, every {config.evaluation.every} rounds, on this site's rows: n, {metrics}"
    yield "never: rows, labels, personal models, what this site keeps between rounds"


def _listed(sent: Tree) -> Iterator[str]:
    for name, x in tree.named(sent).items():
        form = f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
        yield f"  {name}: {form}, {x.numel() * x.element_size():,} bytes"
    yield f"  {tree.size_bytes(sent):,} bytes in all"
