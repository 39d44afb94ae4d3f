"""When things happen: who is invited to a round, who is in time, how long it takes.

Only schedules that depend on what the server knows, and runs with a clock, need any of this; for
all others a plan is a function of the round and the key.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import channel, rng, tree
from unalike.draws import work
from unalike.engine.traffic import downloads, waiting
from unalike.engine.traffic.downloads import Heard
from unalike.engine.traffic.messages import told_bytes
from unalike.engine.transport import Clients
from unalike.parts.participation.asynchronous import Buffered, Timeline
from unalike.parts.participation.mediators import Mediated
from unalike.parts.participation.schedule import Plan, Sampled
from unalike.parts.participation.selection import Choosing, Seen
from unalike.recipe import Recipe
from unalike.tree import Tree


class Known(NamedTuple):
    """What a server remembers beside its model; a part of its state."""

    losses: Tensor | tuple[()] = ()  # [n] last reported, if a selection needs them
    heard: Heard = Heard()  # what it has sent, if downloads are compressed
    past: Tree = ()  # downloads of earlier rounds, the newest first, where clients may be stale


class InTime(NamedTuple):
    """What happens before the end of a round."""

    work: Plan  # of the clients whose answers are waited for
    edges: Tensor | None  # [E, 2] over which servers can hear one another, if any do
    seconds: float | None = None  # of the round, if there is a clock


class Timing:
    """The time of one recipe's rounds."""

    def __init__(self, recipe: Recipe, clients: Clients, span: range, seed: int) -> None:
        """Nothing is drawn yet."""
        self.recipe, self.clients, self.span = recipe, clients, span
        schedule = recipe.schedule
        self.choosing = schedule if isinstance(schedule, Choosing) else None
        self.cohorts, self.key = rng.stream(seed, "cohort"), rng.stream(seed, "clock")
        self.events: Timeline | None = None
        self.sizes: tuple[int, int] | None = None  # bytes of a download and an upload
        self.told: int | None = None  # and of messages between servers

    def blank(self, downs: Tree) -> Known:
        """Before the first round; ``downs`` is what clients would get, stacked over servers."""
        schedule = self.recipe.schedule
        past: Tree = ()
        losses: Tensor | tuple[()] = ()
        if self.choosing is not None and "loss" in self.choosing.needs:
            losses = torch.full((self.clients.n,), torch.inf, dtype=torch.float64)
        if isinstance(schedule, Buffered):
            past = tree.map(lambda x: x[0].expand(schedule.stalest, *x.shape[1:]), downs)
        return Known(losses, downloads.blank(self.recipe, downs, self.clients.n), past)

    def plan(
        self,
        t: int,
        known: Known,
        downs: Tree,
        span: range | None = None,
        survey: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> Plan:
        """Who is asked; ``span`` in place of the rounds of the stage."""
        schedule, n, span = self.recipe.schedule, self.clients.n, span or self.span
        if isinstance(schedule, Buffered):
            return schedule.arrived(t - self.span.start, self._timeline(downs).step(self._at(t)))
        if self.choosing is None:
            return schedule.plan(t, span, n, self.cohorts)
        losses = known.losses if isinstance(known.losses, Tensor) else torch.full((n,), torch.inf)
        seen = Seen(self.clients.sizes, losses, self._usual(downs), survey)
        return self.choosing.choose(t, span, self.cohorts, seen)

    def in_time(self, t: int, plan: Plan, downs: Tree, stack: Any) -> InTime:
        """Whose answers are waited for and what servers hear; ``stack`` are the servers."""
        clock, schedule = self.recipe.clock, self.recipe.schedule
        edges = self.recipe.topology.links(t, self.clients.n)
        if clock is None:
            return InTime(plan, edges)
        if isinstance(schedule, Buffered):
            events, i = self._timeline(downs), self._at(t)
            before = events.step(i - 1).at if i else 0.0
            return InTime(plan, edges, events.step(i).at - before)
        took = self._seconds(t, plan, downs)
        if isinstance(schedule, Mediated):
            took = schedule.waited(plan.role, took)
        wanted = self._wanted(t, plan)
        there = torch.zeros_like(plan.reply)
        there[took.argsort(stable=True)[:wanted]] = True
        if clock.deadline is not None:
            there &= took <= clock.deadline
        ends = float(took[there].max()) if there.any() else 0.0
        late = torch.zeros_like(there)
        if clock.deadline is not None and int(there.sum()) < wanted:
            ends, late = clock.deadline, ~there  # the server waited in vain
        if edges is not None:
            edges, over = self._exchanged(t, plan, took, there, late, edges, stack)
            ends = max(ends, over)
        ends += self._handed_on(t, stack)
        return InTime(Plan(*(field[there] for field in plan)), edges, ends)

    def _exchanged(
        self,
        t: int,
        plan: Plan,
        took: Tensor,
        there: Tensor,
        late: Tensor,
        edges: Tensor,
        stack: Any,
    ) -> tuple[Tensor, float]:
        """(the edges in time, when everything is heard), if nodes or servers tell one another."""
        topology, clock, n = self.recipe.topology, self.recipe.clock, self.clients.n
        assert clock is not None
        home, k = topology.home(n), len(tree.leaves(stack)[0])
        ready = torch.zeros(k, dtype=torch.float64)
        ready.scatter_reduce_(0, home[plan.ids[there]], took[there], "amax")
        awake = torch.zeros(k, dtype=torch.bool)
        awake[home[plan.ids[there & plan.reply]]] = True
        told = self._told(stack)
        used = awake[edges[:, 1]]
        if not topology.local:
            if clock.deadline is not None:
                ready[home[plan.ids[late]]] = clock.deadline
            line = clock.backbone, clock.latency
            return edges, waiting.between_servers(ready, edges[used], told, *line, topology.cloud)
        if self.recipe.copies is None:
            used &= awake[edges[:, 0]]
        nodes, heard = torch.arange(n), edges[used]
        lines, shaken = clock.devices(self.key, nodes), clock.shaken(self.key, t, nodes)
        arrived = waiting.on_graph(ready, heard, told, lines, clock.latency, shaken)
        if clock.deadline is None:
            return edges, float(arrived.max()) if len(arrived) else 0.0
        missed = waiting.both_ways(heard, arrived > clock.deadline, n)
        kept = torch.ones_like(used)
        kept[used.nonzero()[:, 0][missed]] = False
        over = clock.deadline if missed.any() else max(arrived.tolist(), default=0.0)
        return edges[kept], over

    def _told(self, stack: Any) -> int:
        """The bytes of a message from one server to another."""
        if self.told is None:
            self.told = told_bytes(self.recipe, stack)
        return self.told

    def _handed_on(self, t: int, stack: Any) -> float:
        """The seconds until the next client in turn is the server."""
        host, n, clock = self.recipe.topology.host, self.clients.n, self.recipe.clock
        before, now = host(max(t - 1, 0), n), host(t, n)
        if clock is None or before is None or now is None or before == now:
            return 0.0
        both = torch.tensor([before, now])
        lines, shaken = clock.devices(self.key, both), clock.shaken(self.key, t, both)
        size, pair = tree.size_bytes(stack), torch.tensor([[1, 0]])
        took = clock.latency + waiting.shared(pair, size, lines.down, lines.up)
        return float(took[0] * shaken[0])

    def versions(self, plan: Plan, known: Known, downs: Tree, home: Tensor) -> tuple[Tree, Tensor]:
        """(downloads, stacked; which of them each client got)."""
        if not isinstance(self.recipe.schedule, Buffered):
            return downs, home
        given = tree.map(lambda x, old: torch.cat([x, old]), downs, known.past)
        return given, torch.zeros_like(home).index_put((plan.ids,), plan.role)

    def in_vain(self, t: int, downs: Tree) -> tuple[Tensor, int]:
        """(clients whose answers came too late to be used, the usual bytes of an answer)."""
        if not isinstance(self.recipe.schedule, Buffered):
            return torch.zeros(0, dtype=torch.long), 0
        lost = self._timeline(downs).step(self._at(t)).lost
        assert self.sizes is not None, "a timeline has asked for them"
        return torch.tensor(lost, dtype=torch.long), self.sizes[1]

    def ages(self, plan: Plan, ids: Tensor) -> dict[str, Tensor]:
        """How stale the answers of some planned clients are, where they may be."""
        if not isinstance(self.recipe.schedule, Buffered):
            return {}
        return {"staleness": plan.role[torch.searchsorted(plan.ids, ids)].double()}

    def after(self, known: Known, downs: Tree, ids: Tensor, stats: Mapping[str, Tensor]) -> Known:
        """What is known after a round."""
        losses, heard, past = known
        if isinstance(losses, Tensor) and "loss" in stats:
            losses = losses.index_put((ids,), stats["loss"].double())
        if isinstance(self.recipe.schedule, Buffered):
            past = tree.map(lambda x, old: torch.cat([x, old])[:-1], downs, past)
        return Known(losses, heard, past)

    def _wanted(self, t: int, plan: Plan) -> int:
        """How many answers end a round."""
        schedule = self.recipe.schedule
        if isinstance(schedule, Sampled):
            return min(schedule.size(t, self.clients.n), len(plan.ids))
        return len(plan.ids)

    def _at(self, t: int) -> int:
        return t - self.span.start

    def _timeline(self, downs: Tree) -> Timeline:
        if self.events is None:
            schedule, clock = self.recipe.schedule, self.recipe.clock
            usual = self._usual(downs)
            assert isinstance(schedule, Buffered)
            assert clock is not None, "checked by the method"
            assert usual is not None
            self.events = schedule.timeline(rng.fold_in(self.key, -2), usual, clock.jitter)
        return self.events

    def _usual(self, downs: Tree) -> Tensor | None:
        """[n] what a round usually takes each client."""
        if self.recipe.clock is None:
            return None
        everybody = torch.arange(self.clients.n)
        schedule = self.recipe.schedule
        epochs = schedule.epochs if isinstance(schedule, Sampled) else 1.0
        each = torch.full((self.clients.n,), epochs, dtype=torch.float64)
        examples = work(self.clients.sizes, each)
        return self.recipe.clock.seconds(self.key, -1, everybody, examples, *self._bytes(downs))

    def _seconds(self, t: int, plan: Plan, downs: Tree) -> Tensor:
        """[n] what the round takes the clients of a plan."""
        clock, ids, sizes = self.recipe.clock, plan.ids, self._bytes(downs)
        assert clock is not None
        examples = work(self.clients.sizes[ids], plan.epochs)
        host = self.recipe.topology.host(t, self.clients.n)
        if host is None:
            return clock.seconds(self.key, t, ids, examples, *sizes, plan.reply)
        lines = clock.devices(self.key, torch.arange(self.clients.n))
        own = examples.double() / lines.speed[ids]
        took = waiting.by_host(host, ids, plan.reply, own, sizes, lines, clock.latency)
        return took * clock.shaken(self.key, t, ids)

    def _bytes(self, downs: Tree) -> tuple[int, int]:
        """Of a client's two messages; a client that is its own server sends itself nothing."""
        if self.sizes is None:
            self.sizes = 0, 0
            if not self.recipe.topology.local and tree.leaves(downs):
                down = tree.row(downs, 0)
                whole = downloads.usual(self.recipe, down, 1)
                up = self.recipe.algorithm.upload_like(down)
                self.sizes = whole, channel.usual_bytes(self.recipe.channel, up)
        return self.sizes
