"""The server's side of training: one round, identical in simulation and over a network."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.cohort import Cohort
from unalike.engine.guard import Guard
from unalike.engine.ledger import Traffic, survey_traffic, traffic
from unalike.errors import RunError
from unalike.parts.mixing.questions import Question
from unalike.parts.schedule import Plan
from unalike.recipe import Recipe
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
    logged: Mapping[str, float | Tensor] = MappingProxyType({})  # and its numbers for the record


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
        at, notes, logged = home[got.ids], list[str](), dict[str, float | Tensor]()
        for j in at.unique().tolist():  # adapt: every server uses its own clients
            part = self._cohort(t, got, j, at == j, (home == j).nonzero()[:, 0])
            ups = got.ups if bool((at == j).all()) else tree.row(got.ups, at == j)
            for name in recipe.needs & MEASURED.keys():
                part.stats[name] = MEASURED[name](ups)
            p, mixing[j], note, told = recipe.mixing.weights(mixing[j], part)
            notes.append(note)
            for name, value in told.items():
                if isinstance(value, Tensor):  # a number of every client
                    rows = logged.get(name, torch.full((self.n,), torch.nan, dtype=torch.float64))
                    value = torch.as_tensor(rows).index_put((part.ids,), value.double().cpu())
                logged[name] = value
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
        seen = {k: v[got.ids] if isinstance(v, Tensor) else v for k, v in logged.items()}
        done = Round(got.ids, weights[got.ids], rejected, "", cost, sent.worked, said, seen)
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
            p, _, note, _ = self.recipe.mixing.weights(mixing[j], part)
            notes.append(note)
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
        payload = sum(tree.size_bytes(q.payload) for q in questions)
        first = next((found for found in links if found is not None), None)
        return survey_traffic(topology, self.n, self.survey, payload, first)


def _on(server: Any, p: Tensor) -> Tensor:
    """Mixing weights on the device of a server's model."""
    return p.to(next(iter(tree.leaves(server.x)), p).device)
