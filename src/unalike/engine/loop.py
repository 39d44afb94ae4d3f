"""The server's side of training: one round, identical in simulation and over a network."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.cohort import Cohort
from unalike.engine.guard import Guard
from unalike.engine.ledger import Traffic, survey_traffic, traffic
from unalike.errors import RunError
from unalike.parts.mixing.base import Question
from unalike.parts.schedule import Plan
from unalike.recipe import Recipe
from unalike.tasks import Judged
from unalike.tree import Params, Tree
from unalike.uploads import Stacked

# Statistics of the uploads that a server finds out itself: no client reports them.
MEASURED: dict[str, Callable[[Tree], Tensor]] = {"gram": tree.gram, "sqnorm": tree.sqnorms}


class Replies(NamedTuple):
    """What came back in a round."""

    ids: Tensor
    ups: Tree  # stacked over the clients that answered
    stats: dict[str, Tensor]
    worked: dict[str, float]  # samples processed, padding share


class Transport(Protocol):
    """The only thing that differs between simulation and deployment."""

    n_clients: int

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """Every client's answers, stacked."""
        ...

    def train(self, t: int, plan: Plan, downs: list[Any], home: Tensor) -> Replies:
        """Send each planned client its server's download, collect the answers."""
        ...

    def refuse(self, ids: list[int]) -> None:
        """These clients' answers of this round were not used: they keep what they had before."""
        ...

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """Every section that is judged on rows which clients hold, by the clients themselves.

        ``downs`` is stacked over the servers, ``models`` has one of each. Neither rows nor personal
        models cross the border.
        """
        ...

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """The clients' own models together on rows of the server's."""
        ...

    def mean_weights(self, downs: Tree) -> Params:
        """The plain mean of the clients' own models."""
        ...

    def in_flight(self) -> dict[int, Params]:
        """Server -> the mean, by examples, of the models its clients keep after this round."""
        ...


class Through:
    """A transport around another: judging is passed on."""

    inner: Transport

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """As the inner transport."""
        return self.inner.evaluate(downs, models)

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """As the inner transport."""
        return self.inner.ensemble(downs, x, noise, how)

    def mean_weights(self, downs: Tree) -> Params:
        """As the inner transport."""
        return self.inner.mean_weights(downs)

    def in_flight(self) -> dict[int, Params]:
        """As the inner transport."""
        return self.inner.in_flight()


class State(NamedTuple):
    """All that the servers know; a pytree of tensors, so it can be saved and restored."""

    servers: tuple[Any, ...]
    mixing: tuple[Any, ...]


class Round(NamedTuple):
    """What happened in a round."""

    ids: Tensor
    weights: Tensor
    rejected: dict[int, str]  # client -> why its update was refused
    skipped: str  # why the round changed nothing, or empty
    traffic: Traffic
    worked: dict[str, float]
    notes: tuple[str, ...] = ()  # what the mixing rule wants a person to know
    logged: Mapping[str, float] = MappingProxyType({})  # and its numbers for the record


class Loop:
    """The rounds of one recipe over one transport."""

    def __init__(
        self, recipe: Recipe, transport: Transport, rounds: int, seed: int, guard: Guard
    ) -> None:
        """Asks the survey, which is the only thing sent before the first round."""
        self.recipe, self.transport, self.rounds, self.guard = recipe, transport, rounds, guard
        self.n = transport.n_clients
        self.home = recipe.topology.home(self.n)
        self.cohorts, self.noise = rng.stream(seed, "cohort"), rng.stream(seed, "server")
        questions = recipe.mixing.survey
        self.survey = transport.survey(questions) if questions else {}
        self.asked = self._asked(questions) if questions else Traffic()
        self.survey_bytes = self.asked.total

    def begin(self, w: Params) -> State:
        """Every server with the same initial model."""
        key, k = rng.fold_in(self.noise, 0), int(self.home.max()) + 1
        device = next(iter(w.values())).device
        algorithm, mixing = self.recipe.algorithm, self.recipe.mixing
        servers = tuple(tree.to(algorithm.server_init(w, key), device) for _ in range(k))
        return State(servers, tuple(mixing.init(self.n) for _ in range(k)))

    def downs(self, state: State) -> list[Any]:
        """What each server sends."""
        return [self.recipe.algorithm.broadcast(s) for s in state.servers]

    def advance(self, state: State, t: int) -> tuple[State, Round]:
        """Round ``t``: train, check, adapt, combine."""
        recipe, home = self.recipe, self.home
        plan = recipe.schedule.plan(t, self.rounds, self.n, self.cohorts)
        downs = self.downs(state)
        sent = self.transport.train(t, plan, downs, home)
        got, rejected = self.guard.check(sent)
        self.transport.refuse(list(rejected))
        if len(got.ids) < self.guard.min_replies:
            why = f"{len(got.ids)} usable answers, {self.guard.min_replies} needed"
            if self.guard.too_few == "stop":
                raise RunError(
                    f"round {t + 1} got {why}; lower faults.min_replies, raise the participation, "
                    "or set faults.too_few = 'skip'."
                )
            self.transport.refuse(plan.ids.tolist())
            cost = traffic(
                recipe.topology, plan, downs, sent, None, state.servers, self.hosts(t), self.n
            )
            return state, Round(got.ids, torch.zeros(0), rejected, why, cost, sent.worked)

        servers, mixing, weights = list(state.servers), list(state.mixing), torch.zeros(self.n)
        at, notes, logged = home[got.ids], list[str](), dict[str, float]()
        for j in at.unique().tolist():  # adapt: every server uses its own clients
            part = self._cohort(t, got, j, at == j, (home == j).nonzero()[:, 0])
            ups = got.ups if bool((at == j).all()) else tree.row(got.ups, at == j)
            for name in recipe.needs & MEASURED.keys():
                part.stats[name] = MEASURED[name](ups)
            p, after = recipe.mixing.weights(mixing[j], part)
            notes.append(recipe.mixing.note(mixing[j], after))
            logged |= recipe.mixing.logged(after)
            mixing[j] = after
            mine = _on(servers[j], p)
            for keep in recipe.filters:
                ups, mine = keep(ups, mine, part)
            servers[j] = recipe.algorithm.server(servers[j], Stacked(ups), mine, part)
            used = mine if len(mine) == len(p) else p  # a filter may weigh anew, or make one of all
            weights[part.ids] = used.float().cpu()
        links, heard = recipe.topology.links(t, self.n), None
        if links is not None:
            heard = self.heard(links, at)
            servers = self._combine(t, links, heard, got, servers, mixing, notes)
        cost = traffic(
            recipe.topology, plan, downs, sent, heard, state.servers, self.hosts(t), self.n
        )
        said = tuple(dict.fromkeys(n for n in notes if n))
        done = Round(got.ids, weights[got.ids], rejected, "", cost, sent.worked, said, logged)
        return State(tuple(servers), tuple(mixing)), done

    def heard(self, links: Tensor, at: Tensor) -> Tensor:
        """The links in use: a server whose clients all stayed silent says nothing."""
        awake = torch.zeros(len(links), dtype=torch.bool)
        awake[at] = True
        return links & awake & (awake[:, None] if self.recipe.topology.local else True)

    def _combine(
        self,
        t: int,
        links: Tensor,
        heard: Tensor,
        got: Replies,
        servers: list[Any],
        mixing: list[Any],
        notes: list[str],
    ) -> list[Any]:
        """Servers hear their neighbours, who count as much as the mixing rule says."""
        at, x = self.home[got.ids], tree.stack([s.x for s in servers])
        combined = list(servers)
        for j, server in enumerate(servers):
            if not heard[j].any():
                continue
            part = self._cohort(t, got, j, heard[j][at], links[j][self.home].nonzero()[:, 0])
            p, after = self.recipe.mixing.weights(mixing[j], part)
            notes.append(self.recipe.mixing.note(mixing[j], after))
            row = torch.zeros(len(servers), dtype=p.dtype).index_add(0, self.home[part.ids], p)
            combined[j] = server._replace(x=tree.mean(_on(server, row / row.sum()), x))
        return combined

    def _cohort(self, t: int, got: Replies, j: int, mask: Tensor, known: Tensor) -> Cohort:
        stats = {k: v.cpu()[mask] for k, v in got.stats.items()}
        key = rng.fold_in(self.noise, t + 1)
        host = self.recipe.topology.host(t, self.n)
        own = (self.home == j).nonzero()[:, 0] if host is None else torch.tensor([host])
        return Cohort(t, got.ids[mask], stats, self.survey, known, key, own)

    def hosts(self, t: int) -> tuple[int | None, int | None]:
        """The clients that were the server in the round before and are it in this one."""
        host = self.recipe.topology.host
        return host(max(t - 1, 0), self.n), host(t, self.n)

    def _asked(self, questions: tuple[Question, ...]) -> Traffic:
        """What the survey cost, on the links of the first round that has any."""
        topology = self.recipe.topology
        links = (topology.links(t, self.n) for t in range(self.rounds))
        payload = sum(tree.size_bytes(getattr(q, "payload", ())) for q in questions)
        first = next((found for found in links if found is not None), None)
        return survey_traffic(topology, self.n, self.survey, payload, first)


def _on(server: Any, p: Tensor) -> Tensor:
    """Mixing weights on the device of a server's model."""
    return p.to(next(iter(tree.leaves(server.x)), p).device)
