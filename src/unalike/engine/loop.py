"""The server's side of training: one round, identical in simulation and over a network."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.cohort import Cohort
from unalike.engine.graph.learners import circles, memory
from unalike.engine.server.gather import Gathered, Held, Running, Unseen
from unalike.engine.server.guard import Guard, Longest, refuse_insane
from unalike.engine.server.hearing import Hearing
from unalike.engine.server.population import Answered, Population
from unalike.engine.server.relay import Relayed
from unalike.engine.server.single_client import adapted
from unalike.engine.server.step import MEASURED, adapt, log
from unalike.engine.traffic import downloads, links
from unalike.engine.traffic.ledger import (
    STATISTIC,
    Traffic,
    across,
    asked,
    between,
    parameters,
    traffic,
)
from unalike.engine.traffic.messages import Messages, messages_of, told_bytes
from unalike.engine.traffic.timing import Known, Timing
from unalike.engine.transport import Replies, Summing, Transport
from unalike.errors import RunError
from unalike.parts.mixing.base import Proportional
from unalike.parts.participation.mediators import Mediated
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Recipe
from unalike.tree import Params, Tree
from unalike.uploads import Gone, NotSummed

HELD = 32 << 20  # bytes of uploads that are held rather than summed as they come


class State(NamedTuple):
    """All that the servers know; a pytree of tensors, so it can be saved and restored."""

    stack: Any  # the servers, one row each
    mixing: tuple[Any, ...]  # what the rule of each server remembers
    survey: dict[str, Tensor]  # every client's answers
    known: Known = Known()
    copies: Tree = ()  # what all know about each node, if messages are compressed

    @property
    def servers(self) -> tuple[Any, ...]:
        """Each server by itself; views, not copies."""
        return tuple(tree.row(self.stack, j) for j in range(len(self.mixing)))


class Round(NamedTuple):
    """What happened in a round."""

    ids: Tensor
    weights: Tensor
    rejected: dict[int, str]  # client -> why its update was refused
    skipped: str  # why the round changed nothing, or empty
    traffic: Traffic
    worked: dict[str, float]
    notes: tuple[str, ...] = ()  # what the mixing rule wants a person to know
    logged: Mapping[str, Any] = MappingProxyType({})  # and its numbers for the record
    stats: Mapping[str, Tensor] = MappingProxyType({})  # what the clients reported
    mixed: Mapping[int, dict[int, float]] = MappingProxyType({})  # server -> neighbour -> weight
    load: links.Load = links.Load()
    seconds: float | None = None  # by the simulated clock, if there is one


class Loop:
    """The rounds of one recipe over one transport."""

    def __init__(
        self,
        recipe: Recipe,
        transport: Transport,
        span: range,
        seed: int,
        guard: Guard,
    ) -> None:
        """``span`` are the numbers of its rounds; sends nothing yet."""
        self.recipe, self.transport, self.span, self.guard = recipe, transport, span, guard
        self.n = transport.clients.n
        self.home, self.circles = recipe.topology.home(self.n), circles(recipe, self.n)
        self.all = Population(transport.clients, self.home)
        self.hearing = Hearing(recipe, self.all, self.circles)
        self.cohorts, self.noise = rng.stream(seed, "cohort"), rng.stream(seed, "server")
        self.holds = bool(recipe.filters or recipe.needs & MEASURED.keys())
        self.asked = Traffic()
        self.sent: list[links.Sent] = []  # in the last round
        self.edges: Tensor | None = None  # over which servers can hear one another in this round
        self.longest = Longest()
        self.timing = Timing(recipe, transport.clients, span, seed)

    def begin(self, w: Params) -> State:
        """Every server with the same initial model; the survey is asked."""
        questions = self.recipe.survey
        survey = self.transport.survey(questions) if questions else {}
        payload = sum(tree.size_bytes(q.payload) for q in questions)
        at = self.recipe.topology, self.n, self.span
        self.asked = asked(*at, survey, payload) if questions else Traffic()
        return self.blank(w)._replace(survey=survey)

    def blank(self, w: Params) -> State:
        """The same before anybody was asked: the form that a saved state has."""
        key, k = rng.fold_in(self.noise, 0), self.all.servers
        device = next(iter(w.values())).device
        server = tree.to(self.recipe.algorithm.server_init(w, key), device)
        stack = tree.map(lambda x: x.expand(k, *x.shape), server)
        circle = self.circles.get
        state = State(stack, tuple(memory(self.recipe, self.n, circle(j)) for j in range(k)), {})
        copies = () if self.recipe.copies is None else self.recipe.algorithm.tells(stack)
        return state._replace(known=self.timing.blank(self.downs(state)), copies=copies)

    def messages(self, w: Params) -> Messages:
        """One of each."""
        return messages_of(self.recipe, w, self.noise)

    def downs(self, state: State) -> Tree:
        """What each server sends, stacked."""
        if len(state.mixing) == 1:
            one = self.recipe.algorithm.broadcast(tree.row(state.stack, 0))
            return tree.map(lambda x: x[None], one)
        return vmap(self.recipe.algorithm.broadcast)(state.stack)

    def advance(self, state: State, t: int) -> tuple[State, Round]:
        """Round ``t``: train, check, adapt, combine."""
        downs = self.downs(state)
        plan = self.timing.plan(t, state.known, downs, survey=state.survey)
        work, self.edges, seconds = self.timing.in_time(t, plan, downs, state.stack)
        at = rng.fold_in(self.noise, t + 1), plan.ids, self.home
        downs, heard, self.down = downloads.told(self.recipe, state.known.heard, downs, *at)
        state = state._replace(known=state.known._replace(heard=heard))
        try:
            after, done = self._played(state, t, plan, work, downs)
        except NotSummed:  # a rule needs more than a sum: repeat the round, keeping everything
            self.holds = True
            self.transport.refuse(plan.ids.tolist())  # clients begin it with what they had before
            after, done = self._played(state, t, plan, work, downs)
        known = self.timing.after(state.known, downs, done.ids, done.stats)
        done.worked.update(self.counted)
        done = done._replace(load=links.load(self.sent), seconds=seconds)
        return after._replace(known=known), done

    def _played(
        self, state: State, t: int, plan: Plan, work: Plan, downs: Tree
    ) -> tuple[State, Round]:
        """The round of the planned clients, some of which are in time to do their work."""
        scale = self.longest(state.stack.x)
        gathered = self._gathering(work, downs, scale)
        given = self.timing.versions(work, state.known, downs, self.home)
        for part in self._answers(t, work, *given, gathered) if len(work.ids) else ():
            gathered.take(part)
        ids, norms, stats = gathered.numbers()
        usable, rejected = self.guard.check(ids, norms, scale)
        got, stats = ids[usable], {k: v[usable] for k, v in stats.items()}
        topology, down = self.recipe.topology, self.down
        host = topology.host(t, self.n)
        lost, usual = self.timing.in_vain(t, downs)  # who received a model, but answered too late
        invited, came = torch.cat([plan.ids, lost]), torch.cat([ids, lost])
        sizes = torch.cat([gathered.bytes, torch.full_like(lost, usual)])
        cost = traffic(topology, host, invited, came, down, sizes, len(stats))
        nobody = -1 if host is None else host  # its messages to itself do not count
        reached, back = (int((some != nobody).sum()) for some in (invited, came))
        those = reached * bool(cost.down), self.n - (host is not None), back
        self.counted = parameters(self.recipe.algorithm, downs, *those)
        cost += (handed := self.moved(t, state))
        self.counted = between(self.counted, handed.messages, state.stack, 1)
        self.sent = links.handed_on(topology, t, self.n, tree.size_bytes(state.stack))
        up = sizes + STATISTIC * len(stats)
        self.sent += links.of_clients(topology, t, self.n, invited, came, down, up)
        least = max(self.guard.min_replies, gathered.fewest)
        if len(got) >= least:
            self.transport.refuse(list(rejected))
        while len(got) >= least:
            try:
                known = stats | self.timing.ages(work, got)
                told = Answered(t, got, known, state.survey, self.noise)
                return self._adapted(state, told, rejected, cost, gathered)
            except Gone as gone:
                left = ~torch.isin(got, torch.tensor(gone.ids))
                self.transport.refuse(gone.ids)
                rejected |= dict.fromkeys(gone.ids, "no part in the sum of all updates")
                got, stats = got[left], {k: v[left] for k, v in stats.items()}
        return self._skipped(state, t, work, got, rejected, cost, gathered)

    def _answers(
        self, t: int, plan: Plan, downs: Tree, home: Tensor, gathered: Gathered
    ) -> Iterator[Replies]:
        """Of clients that train side by side, or, under mediators, one after the other."""
        if not isinstance(gathered, Relayed):
            ahead = None
            if isinstance(gathered, Running) and isinstance(self.transport, Summing):
                ahead = gathered.beforehand(self.transport.clients.sizes[plan.ids])
            if ahead is None:
                yield from self.transport.train(t, plan, downs, home)
            else:
                yield from self.transport.summed(t, plan, downs, home, ahead)  # type: ignore[attr-defined]
            return
        for some, now, whose in gathered.legs(downs, home):
            yield from self.transport.train(t, some, now, whose)

    def _gathering(self, plan: Plan, downs: Tree, scale: float) -> Held | Running | Unseen:
        """How answers are kept: summed if they are many, one server asks and its rule allows."""
        if self.transport.sums is not None:
            return Unseen(plan.ids[plan.reply], self.transport.sums)
        members, planned = self.recipe.channel, plan.ids[plan.reply]
        mixing, schedule = self.recipe.mixing, self.recipe.schedule
        if isinstance(schedule, Mediated) and len(plan.ids):
            x = tree.row(downs, 0).x
            return Relayed(members, plan, schedule, self.guard, scale, x)
        if not self.holds and len(tree.leaves(downs)) and isinstance(mixing, Proportional):
            up = self.recipe.algorithm.upload_like(tree.row(downs, 0))
            if self.all.servers == 1 and tree.size_bytes(up) * len(planned) > HELD:
                return Running(members, planned, self.guard, scale, mixing.proportion)
        return Held(members, planned)

    def _skipped(
        self,
        state: State,
        t: int,
        plan: Plan,
        got: Tensor,
        rejected: dict[int, str],
        cost: Traffic,
        gathered: Gathered,
    ) -> tuple[State, Round]:
        """Nothing changed for the clients that took part."""
        why = f"{len(got)} usable answers, {max(self.guard.min_replies, gathered.fewest)} needed"
        if self.guard.too_few == "stop":
            raise RunError(
                f"round {t + 1} got {why}; lower faults.min_replies, raise the participation, "
                "or set faults.too_few = 'skip'."
            )
        self.transport.refuse(plan.ids.tolist())
        return state, Round(got, torch.zeros(0), rejected, why, cost, gathered.work.record)

    def _adapted(
        self,
        state: State,
        told: Answered,
        rejected: dict[int, str],
        cost: Traffic,
        gathered: Held | Running | Unseen,
    ) -> tuple[State, Round]:
        """Every server uses its own clients, then hears its neighbours."""
        recipe, t, got, at = self.recipe, told.t, told.ids, self.home[told.ids]
        several = len(state.mixing) > 1
        mixing, weights = list(state.mixing), torch.zeros(self.n)
        notes, logged = list[str](), dict[str, Any]()
        if isinstance(gathered, Held) and self._alone:
            everybody = Cohort(t, got, told.stats, told.survey, got, told.key)
            parts = gathered.usable(got)
            stack = adapted(recipe.algorithm, state.stack, self.home, parts, everybody)
            weights[got], at = 1.0, at[:0]
        else:
            uploads = gathered.uploads(got)
            stack = tree.map(lambda x: x.clone(), state.stack) if several else state.stack
        for j in at.unique().tolist():
            here, whole = (at == j).nonzero()[:, 0], self.all.members(j)
            part = self.all.cohort(recipe, told, j, here, whole)
            own = tree.row(stack, j)
            found = adapt(recipe, own, mixing[j], uploads(part.ids), part)
            mixing[j] = found.memory
            notes.append(found.note)
            if not recipe.topology.local:  # with a single client a rule has no effect
                log(logged, found.logged, part.ids, self.n)
            if several:
                tree.map(lambda rows, x: rows[j].copy_(x), stack, found.server)  # noqa: B023
            else:
                stack = tree.map(lambda x: x[None], found.server)
            weights[part.ids] = found.weights
        mixed, copies = dict[int, dict[int, float]](), state.copies
        if (edges := self.edges) is not None:
            heard = self.hearing.combined(stack, copies, mixing, edges, told)
            stack, copies, mixing, sizes, more_notes, mixed = heard
            notes += more_notes
            along = self.hearing.said(edges, self.home[got])
            size = told_bytes(recipe, state.stack) if sizes is None else sizes[along[:, 1]]
            cost += (more := across(recipe.topology, along, size))
            tells = recipe.algorithm.tells(state.stack)
            self.counted = between(self.counted, more.messages, tells, len(mixing))
            self.sent += links.of_servers(recipe.topology, self.n, along, size)
        refuse_insane(t, self.longest(state.stack.x), self.longest(stack.x))
        said = tuple(dict.fromkeys(n for n in notes if n))
        worked = gathered.work.record
        seen = {k: v[got] if isinstance(v, Tensor) else v for k, v in logged.items()}
        done = Round(got, weights[got], rejected, "", cost, worked, said, seen, told.stats, mixed)
        return State(stack, tuple(mixing), state.survey, copies=copies), done

    @property
    def _alone(self) -> bool:
        """Whether every client is its own server, whose step can be taken beside the others'."""
        recipe = self.recipe
        plain = isinstance(recipe.mixing, Proportional) and recipe.algorithm.separable
        return recipe.topology.local and plain and not self.holds

    def moved(self, t: int, state: State) -> Traffic:
        """The server's state on its way, if the server was another client in the round before."""
        host = self.recipe.topology.host
        before, now = host(max(t - 1, 0), self.n), host(t, self.n)
        if before == now:
            return Traffic()
        return Traffic(across=tree.size_bytes(state.stack), messages=1)
