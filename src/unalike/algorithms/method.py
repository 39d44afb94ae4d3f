"""A named method: its settings, what it changes in a draft, and what it cannot be combined with.

All methods of a run are applied in the order they are named. Then the finished draft is checked
once for conflicts: two methods that fill the same slot, one that refuses a trait of another one or
of the topology, or one whose settings do not fit.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from unalike.algorithms.draft import After, Draft
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Memoryless, Weighed
from unalike.parts.optim import Sgd
from unalike.parts.representation.cut import comes_last
from unalike.parts.topology import Decentralized
from unalike.settings import Settings, setting
from unalike.traits import Trait

Slot = Literal[
    "objective",
    "server",
    "weights",
    "work",
    "private",
    "personal model",
    "last rounds",
    "data",
    "schedule",
    "algorithm",
    "defence",
    "privacy",
    "sparsity",
    "precision",
    "",
]


class Method(Settings):
    """A named method: its settings and the one slot of the draft it fills."""

    slot: ClassVar[Slot] = ""
    traits: ClassVar[frozenset[Trait]] = frozenset()  # beside those that the draft shows
    refuses: ClassVar[Mapping[Trait, str]] = {}  # a trait of another -> why not
    called: ClassVar[str] = "method '{}'"  # in a sentence
    paper: ClassVar[str] = ""

    def change(self, draft: Draft) -> Draft:
        """The draft with this method's slot filled; ``objection`` says what is impossible."""
        return draft

    def objection(self, draft: Draft) -> str:
        """Why this method cannot be used with these settings, as a sentence; empty if it can."""
        return ""

    def misfit(self, x: Tensor) -> str:
        """Why this method cannot be used on a client's own features; empty if it can."""
        return ""


WHOLE_STEP = Sgd(1.0)  # of a server whose step no method sets
REPLACED_STEP: Mapping[Trait, str] = {
    Trait.OWN_SERVER: "there is no step of FedAvg's server for its optimizer to replace"
}
ONE_LEARNER: Mapping[Trait, str] = {
    Trait.EDGE_SERVERS: "one learner of the weights must see the losses of all clients"
}
FOR_UPDATES: Mapping[Trait, str] = {
    Trait.MANY_SERVERS: "its weights are for updates, and servers average models",
    Trait.FILTERS_UPDATES: "its weights belong to the updates as they were sent and include the "
    "length of the step",
}
NO_MODEL_SENT: Mapping[Trait, str] = {
    Trait.FILTERS_UPDATES: "it sends no updates of a model",
    Trait.ALTERS_UPLOADS: "it sends no updates of a model",
    Trait.WEIGHTS_FOLLOW_LOSSES: "it sends no model whose loss clients could report",
}
OWN_MEAN: Mapping[Trait, str] = {
    **dict.fromkeys(
        (Trait.FILTERS_UPDATES, Trait.ALTERS_UPLOADS),
        "the server's sum must stay the mean of the clients' own",
    ),
    Trait.WEIGHTS_CHANGE: "it moves every client along one fixed mean of all gradients, so "
    "weights that change from round to round would have no effect in the "
    "end",
}
COUNTS_ALIKE: Mapping[Trait, str] = {
    Trait.SETS_WEIGHTS: "all clients count the same here, so its weights would be ignored",
    Trait.NO_SERVER: "clients receive models there, and it compares updates",
}
WHOLE_ONES: Mapping[Trait, str] = {
    Trait.WHOLE_MODELS: "it keeps part of the model on the client, and the other one's clients "
    "train whole models"
}
BETWEEN_CLIENTS = (
    Trait.OWN_CLIENT,
    Trait.PULLS,
    Trait.STEPS_ON_SERVER,
    Trait.SETS_WEIGHTS,
    Trait.SCALES_WEIGHTS,
    Trait.FILTERS_UPDATES,
    Trait.ALTERS_UPLOADS,
    Trait.SENDS_SOME_ENTRIES,
    Trait.WRITES_FEW_BITS,
    Trait.ALTERS_DOWNLOADS,
    Trait.CHOOSES_COHORTS,
    Trait.OWN_MODELS,
    Trait.ENDS_WITH_A_STAGE,
    Trait.MANY_SERVERS,
    Trait.MOVING_SERVER,
)
NO_NOISE = "our choice: as published, without noise"
TO_BE_SET = "our choice, to be adjusted: what is tolerable depends on the data"
AVERAGING: Literal["size", "uniform"] = setting(
    "size",
    "the mean by examples, or plain (text); another method's weights take precedence",
    source="our choice: as FedAvg, so that nothing else differs; the text takes the plain mean",
)
BY_EXAMPLES: bool = setting(
    True,
    "times the number of examples (text), or not (authors' code)",
    source="text; the released code of AAggFF, which has it as a baseline, leaves it out",
)


def new_neighbours(draft: Draft) -> str:
    """Why weights cannot be learned where every client has its own server; empty if they can."""
    if isinstance(draft.topology, Decentralized) and not draft.topology.stays:
        return (
            "weights that are learned from round to round need the same neighbours in every round, "
            "and those of this graph change; use a fixed one, such as topology.name = 'ring'."
        )
    return ""


class WeightRule(Method, Memoryless):
    """A method that is just a rule for the weights: it has ``weights`` itself."""

    slot: ClassVar[Slot] = "weights"

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, weights=self)

    @abstractmethod
    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """The weights of a cohort."""


class Party(NamedTuple):
    """One method or topology of a draft, with all its traits."""

    called: str
    method: Method | None  # None: a topology
    traits: frozenset[Trait]
    refuses: Mapping[Trait, str]  # a trait of another -> why not

    @property
    def short(self) -> str:
        """Beside another method."""
        return self.called.removeprefix("method ")

    def reason(self, other: "Party") -> str:
        """Why this one cannot be combined with another; empty if it can."""
        return next((self.refuses[t] for t in self.refuses if t in other.traits), "")

    def refusal(self, other: "Party") -> str:
        """Why the two do not go together, as a sentence; empty if they do."""
        why = self.reason(other)
        if not why:
            return ""
        if other.method is None:
            return f"{self.called} cannot run on {other.called}: {why}; set topology.name = 'star'."
        return f"{self.called} cannot be combined with {other.short}: {why}; drop one of them."


def compose(draft: Draft, methods: Sequence[tuple[str, Method]], topology: str) -> Draft:
    """Apply the named methods in turn, or say why they do not go together."""
    draft, parties = assembled(draft, methods, topology)
    if why := next(objections(draft, parties), ""):
        raise ConfigError(why)
    return draft


def assembled(
    draft: Draft, methods: Sequence[tuple[str, Method]], topology: str
) -> tuple[Draft, list[Party]]:
    """The draft with all methods in it, whether they go together or not, and who they are."""
    parties = []
    for name, method in methods:
        after = method.change(draft)
        _refuse_no_draft(name, after)
        if type(method).misfit is not Method.misfit:
            after = replace(after, fits=(*after.fits, method.misfit))
        shown = traits(method, draft, after)
        parties.append(Party(method.called.format(name), method, shown, method.refuses))
        draft = after
    graph = draft.topology
    parties.append(Party(f"topology '{topology}'", None, graph.traits, graph.refuses))
    return draft, parties


def _refuse_no_draft(name: str, after: Any) -> None:
    """One sentence if a method returned something other than a usable draft."""
    if not isinstance(after, Draft):
        raise ConfigError(
            f"'change' of method '{name}' must return the draft it was given, changed by "
            f"dataclasses.replace, got {type(after).__name__}."
        )
    rule = after.mixing
    lacks = [n for n in ("weights", "init", "needs", "survey", "gauges") if not hasattr(rule, n)]
    if lacks:
        raise ConfigError(
            f"the weights that method '{name}' sets have no '{lacks[0]}'; give an object made "
            f"from unalike.extend.Memoryless, got {type(rule).__name__}."
        )
    if not isinstance(rule.needs, Set) or not all(isinstance(n, str) for n in rule.needs):
        raise ConfigError(
            f"'needs' of method '{name}' must be a set of names, such as frozenset({{'loss'}}), "
            f"got {rule.needs!r}."
        )


_SAID: Mapping[Slot, str] = {
    "algorithm": "algorithm, each with its own way of training clients",
    "private": "layers that stay on the client",
}


def objections(draft: Draft, parties: Sequence[Party]) -> Iterator[str]:
    """All objections to a draft, each as a sentence."""
    named = [(p, p.method) for p in parties if p.method is not None]
    for i, (two, method) in enumerate(named):
        for one, earlier in named[:i]:
            both = f"methods {one.short} and {two.short}"
            if method.slot and method.slot == earlier.slot:
                slot = _SAID.get(method.slot, method.slot)
                yield f"{both} both set the {slot}; keep one of them."
            twice = _ONCE & one.traits & two.traits  # the later one would undo the earlier
            for trait in filter(twice.__contains__, Trait):  # the same sentence in every process
                yield f"{both} cannot be combined: each of them {trait}; keep one of them."
    for one in parties:
        yield from filter(None, (one.refusal(other) for other in parties if other is not one))
    yield from filter(None, (method.objection(draft) for _, method in named))


def _anew(after: After | None) -> After | None:
    """A stage that makes clients' models from the shared one; others continue with them."""
    return after if after is not None and after.start == "model" else None


_SEEN: Mapping[Trait, Callable[[Draft], object]] = {  # in a draft that a method has changed
    Trait.OWN_CLIENT: lambda d: d.base,
    Trait.PULLS: lambda d: d.term,
    Trait.STEPS_ON_SERVER: lambda d: d.server_opt,
    Trait.KEEPS_LEAVES: lambda d: d.private,
    Trait.SETS_WEIGHTS: lambda d: d.weights,
    Trait.SCALES_WEIGHTS: lambda d: d.work,
    Trait.FILTERS_UPDATES: lambda d: d.filters,
    Trait.ALTERS_UPLOADS: lambda d: d.channel,
    Trait.SENDS_SOME_ENTRIES: lambda d: d.compression.select,
    Trait.WRITES_FEW_BITS: lambda d: d.compression.values,
    Trait.ALTERS_DOWNLOADS: lambda d: d.download,
    Trait.AUGMENTS: lambda d: d.transform,
    Trait.CHOOSES_COHORTS: lambda d: (d.phases, d.schedule),
    Trait.BEGINS_WITH_A_STAGE: lambda d: d.before,
    Trait.ENDS_WITH_A_STAGE: lambda d: d.after,
    Trait.OWN_MODELS: lambda d: (d.personal, _anew(d.after)),
}


_UNLESS: Mapping[Trait, Trait] = {  # of a method with its own clients, unless it says the other
    Trait.OWN_SERVER: Trait.FEDAVG_SERVER,
    Trait.WHOLE_MODELS: Trait.SPLITS_MODELS,
    Trait.OWN_OBJECTIVE: Trait.FEDAVG_OBJECTIVE,
}
_ONCE = frozenset(_SEEN) - {  # of these there may be several
    Trait.KEEPS_LEAVES,
    Trait.FILTERS_UPDATES,
    Trait.ALTERS_UPLOADS,
    Trait.ALTERS_DOWNLOADS,
}


def traits(method: Method, before: Draft, after: Draft) -> frozenset[Trait]:
    """What a method is: what it says of itself, and what its change of the draft shows."""
    found = {t for t, part in _SEEN.items() if part(before) != part(after)} | method.traits
    if Trait.OWN_CLIENT in found:
        found |= {own for own, shared in _UNLESS.items() if shared not in found}
    if Trait.SETS_WEIGHTS in found:
        rule = after.mixing
        found |= {Trait.WEIGHTS_FOLLOW_LOSSES} if "loss" in rule.needs else set()
        found |= set() if rule.fixed else {Trait.WEIGHTS_CHANGE}
    return frozenset(found)


def plain_sgd(draft: Draft, method: str) -> str:
    """The objection of a method that is derived for a local optimizer without momentum."""
    if isinstance(draft.opt, Sgd) and not draft.opt.momentum:
        return ""
    return (
        f"method '{method}' is derived for plain SGD: set local.optimizer = 'sgd' and "
        "local.momentum = 0."
    )


def two_steps(draft: Draft, lr: float, method: str) -> str:
    """The objection of a method whose server has a rate, beside one that sets the server's step."""
    if lr == 1 or draft.server_opt == WHOLE_STEP:
        return ""
    return (
        f"method.server_lr of '{method}' is the step of the plain server, but "
        "another method sets the server; leave server_lr out and set lr there."
    )


def forgotten(draft: Draft, method: str) -> str:
    """The objection of a method whose sums must reach the server, if only later."""
    if draft.topology.local or not draft.compression.forgets:
        return ""
    return (
        f"method '{method}' must not lose any part of what it sums; set feedback = true in "
        "the compression method."
    )


def headless(draft: Draft, method: str) -> str:
    """The objection of a method that compares what goes into a head; empty if there is one."""
    task, network = draft.task, draft.task.network
    if task.draws:
        return (
            f"method '{method}' compares what goes into the model's head, and {task.called} adds "
            "noise to it; choose another model or method."
        )
    if network.head and comes_last(network, network.head):
        return ""
    return (
        f"method '{method}' compares the inputs of the model's head, and this model has no body "
        "before its head; choose one with hidden layers, or give the module an attribute head = "
        "('layer.',)."
    )
