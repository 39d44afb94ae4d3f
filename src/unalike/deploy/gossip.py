"""Rounds of peers that are servers: each uses its own clients, then hears its neighbours.

Every peer is its own server in a graph, or some are the edge servers of the others. A neighbour
that is gone is left out, and the weights of the others are rescaled to sum to one, as if a link
were lost in a simulation; with Metropolis weights the peer itself gets the missing weight, which
keeps them symmetric. A peer that finds its neighbours rounds ahead discards the round it was in, as
if it had been absent, and continues in theirs with the model that it has.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.cohort import Cohort
from unalike.deploy.fetching import Fetching
from unalike.deploy.keeping import Keeping
from unalike.deploy.messages import Message, MessageError, fitted
from unalike.deploy.peer import Peer
from unalike.deploy.remote import Remote
from unalike.deploy.shelf import Item
from unalike.engine.graph.learners import circles, memory, weighed
from unalike.engine.graph.neighbours import metropolis, proportional
from unalike.engine.server.gather import Held
from unalike.engine.server.guard import Guard, Longest, refuse_insane
from unalike.engine.server.step import adapt
from unalike.parts.mixing.base import Proportional
from unalike.parts.schedule import Plan


class Mine(NamedTuple):
    """What a peer knows as a server."""

    server: Any
    memory: Any  # of the mixing rule


class Told(NamedTuple):
    """What a server says to its neighbours after a round."""

    model: Any
    ids: Tensor  # its clients that answered
    stats: dict[str, Tensor]


class Played(NamedTuple):
    """A round, for the record."""

    after: int  # the round that follows
    heard: dict[str, float]  # whom it heard, with their weights; itself included
    missing: dict[str, str]
    clients: int = 0


class Gossip:
    """The rounds of one server of several."""

    def __init__(self, peer: Peer, remote: Remote, guard: Guard) -> None:
        """Continues where the peer's folder says."""
        self.peer, self.remote, self.guard = peer, remote, guard
        self.recipe, self.n, self.j, self.home = peer.recipe, peer.n, peer.me, peer.home
        self.k = int(self.home.max()) + 1
        self.members = (self.home == self.j).nonzero()[:, 0]
        assert peer.site is not None, "it has met the others"
        seed = peer.config.seed
        self.cohorts, self.noise = rng.stream(seed, "cohort"), rng.stream(seed, "server")
        server = self.recipe.algorithm.server_init(peer.site.w, rng.fold_in(self.noise, 0))
        self.circle = circles(self.recipe, self.n).get(self.j)
        first = Mine(server, memory(self.recipe, self.n, self.circle))
        self.like = tree.row(self.recipe.algorithm.tells(tree.stack([server])), 0)
        self.keeping = Keeping(peer.place / "server")
        self.keeping.begin(0, first)
        self.fetching, self.length = Fetching(peer), Longest()
        self.unheard = 1  # rounds since servers last waited for one another

    @property
    def next(self) -> int:
        """The round to compute."""
        return self.keeping.round + 1

    @property
    def mine(self) -> Mine:
        """What this server knows now."""
        found: Mine = self.keeping.get()
        return found

    def advance(self, t: int) -> Played:
        """Round ``t``: own clients, then neighbours; the result is on disk."""
        mine, topology = self.mine, self.recipe.topology
        plan = self.recipe.schedule.plan(t, range(self.peer.rounds), self.n, self.cohorts)
        edges = topology.links(t, self.n)
        awake = torch.zeros(self.k, dtype=torch.bool)
        awake[self.home[plan.ids[plan.reply]]] = True
        after, told = self._adapted(t, mine, plan)
        readers = set(self._names(edges, hearing=False)) - self.fetching.gone
        self._publish(t, told, readers)
        if edges is None:
            self.unheard += 1
            return self._done(t, mine, after, Played(t + 1, {}, {}, _count(told)))
        deaf = topology.local and told is None  # it only waits for the others
        heard = self.fetching.everybody(
            "tell", t, self._names(edges, hearing=True), self.unheard, brief=deaf
        )
        self.unheard = 1
        if heard.latest > t + 1:
            self.remote.refuse(self.members.tolist())
            return Played(min(heard.latest, self.peer.rounds), {}, heard.missing)
        if deaf:
            return self._done(t, mine, after, Played(t + 1, {}, heard.missing))
        others, missing = self._read(heard.told, heard.missing, awake)
        if told is not None:
            others[self.j] = told
        if not others:
            return self._done(t, mine, after, Played(t + 1, {}, missing, _count(told)))
        weights, learned = self._heeded(t, after, edges, awake, others)
        senders = sorted(weights)
        models = tree.stack([others[i].model for i in senders])
        p = torch.stack([weights[i] for i in senders])
        means = tree.map(lambda x: x[None], tree.mean(p, models))
        stacked = self.recipe.algorithm.hears(tree.stack([after.server]), means)
        after = Mine(tree.row(stacked, 0), learned)
        counted = {self.peer.agreed.names[i]: float(weights[i]) for i in senders}
        return self._done(t, mine, after, Played(t + 1, counted, missing, _count(told)))

    def _done(self, t: int, before: Mine, after: Mine, played: Played) -> Played:
        lengths = [self.length(tree.stack([m.server.x])) for m in (before, after)]
        refuse_insane(t, *lengths)
        self.keeping.put(t, after)
        return played

    def _adapted(self, t: int, mine: Mine, plan: Plan) -> tuple[Mine, Told | None]:
        """The server after its own clients, and what it says; None: none of them answered."""
        here = torch.isin(plan.ids, self.members)
        work = Plan(*(field[here] for field in plan))
        if not len(work.ids):
            return mine, None
        downs = tree.stack([self.recipe.algorithm.broadcast(mine.server)])
        gathered = Held(self.recipe.channel, work.ids[work.reply])
        for part in self.remote.train(t, work, downs, torch.zeros_like(self.home)):
            gathered.take(part)
        ids, norms, stats = gathered.numbers()
        scale = self.length(tree.stack([mine.server.x]))
        usable, rejected = self.guard.check(ids, norms, scale)
        for i, why in rejected.items():
            self.peer.say(f"peer '{self.peer.agreed.names[i]}': refused, {why}")
        self.remote.refuse(list(rejected))
        got, stats = ids[usable], {k: v[usable] for k, v in stats.items()}
        if not len(got):
            return mine, None
        cohort = self._cohort(t, got, dict(stats), self.members)
        found = adapt(self.recipe, *mine, gathered.uploads(got)(got), cohort)
        told = tree.row(self.recipe.algorithm.tells(tree.stack([found.server])), 0)
        return Mine(found.server, found.memory), Told(told, got, stats)

    def _cohort(self, t: int, ids: Tensor, stats: dict[str, Tensor], known: Tensor) -> Cohort:
        key = rng.fold_in(self.noise, t + 1)
        return Cohort(t, ids, stats, self.peer.survey, known, key, self.members)

    def _names(self, edges: Tensor | None, *, hearing: bool) -> list[str]:
        """Whom this server is linked to as the one that hears or is heard, itself left out."""
        if edges is None:
            return []
        near, far = (0, 1) if hearing else (1, 0)
        found = edges[edges[:, near] == self.j, far]
        return [self.peer.agreed.names[i] for i in found.unique().tolist() if i != self.j]

    def _publish(self, t: int, told: Told | None, readers: set[str]) -> None:
        note: dict[str, Any] = {"silent": True}
        if told is not None:
            stats = {k: v.double().tolist() for k, v in told.stats.items()}
            note = {"ids": told.ids.tolist(), "stats": stats}
        tensors = {} if told is None else tree.named(told.model)
        self.peer.shelf.put("tell", t, Item(tensors, note), readers)

    def _read(
        self, told: Mapping[str, Message], missing: dict[str, str], awake: Tensor
    ) -> tuple[dict[int, Told], dict[str, str]]:
        """What neighbours sent, checked; those that sent something else are left out."""
        found, missing = dict[int, Told](), dict(missing)
        for name, m in told.items():
            i = self.peer.agreed.names.index(name)
            if m.note.get("silent") is True:
                if awake[i]:
                    missing[name] = "none of its clients answered"
                continue
            try:
                found[i] = self._sound(m, i)
            except MessageError as error:
                missing[name] = str(error)
        return found, missing

    def _sound(self, m: Message, i: int) -> Told:
        ids, stats = m.note.get("ids"), m.note.get("stats")
        clients = set((self.home == i).nonzero()[:, 0].tolist())
        if not isinstance(ids, list) or not ids or not set(map(str, ids)) <= set(map(str, clients)):
            raise MessageError("it answers for clients that are not its own.")
        wanted = {"examples", "steps", *self.recipe.needs} - {"gram", "sqnorm"}
        if not isinstance(stats, dict) or len(stats) > 64 or not wanted <= stats.keys():
            raise MessageError("its statistics are not the ones that the recipe declares.")
        model = fitted(m.tensors, self.like, "a model")
        try:
            numbers = {str(k): torch.tensor(v, dtype=torch.float32) for k, v in stats.items()}
        except (TypeError, ValueError):
            raise MessageError("its statistics are not numbers.") from None
        for v in numbers.values():
            if v.shape != (len(ids),) or not bool(torch.isfinite(v).all()):
                raise MessageError("its statistics are not one finite number for each client.")
        if bool((numbers["examples"] < 1).any()):
            raise MessageError("it claims to have no examples.")
        return Told(model, torch.tensor([int(x) for x in ids]), numbers)

    def _heeded(
        self, t: int, mine: Mine, edges: Tensor, awake: Tensor, told: Mapping[int, Told]
    ) -> tuple[dict[int, Tensor], Any]:
        """What each server that was heard counts, and what the rule remembers then."""
        mixing, topology = self.recipe.mixing, self.recipe.topology
        senders = torch.tensor(sorted(told))
        if topology.weights == "metropolis":
            used = edges[awake[edges[:, 0]] & awake[edges[:, 1]]]
            of = metropolis(used, self.k)
            row = {int(i): w for (r, i), w in zip(used.tolist(), of, strict=True) if r == self.j}
            found = {i: row[i] for i in told if i != self.j}
            found[self.j] = 1 - torch.stack([*found.values(), torch.zeros_like(of[0])]).sum()
            return found, mine.memory
        ids = torch.cat([told[i].ids for i in senders.tolist()])
        order = ids.argsort()
        stats = {
            k: torch.cat([told[i].stats[k] for i in senders.tolist()])[order]
            for k in told[int(senders[0])].stats
        }
        ids = ids[order]
        if isinstance(mixing, Proportional):
            u = mixing.proportion(stats)
            whole = torch.zeros(self.k, dtype=u.dtype).index_add(0, self.home[ids], u)
            each = proportional(torch.stack([torch.full_like(senders, self.j), senders], 1), whole)
            return dict(zip(senders.tolist(), each, strict=True)), mine.memory
        linked = torch.zeros(self.k, dtype=torch.bool)
        linked[edges[edges[:, 0] == self.j, 1]] = True
        part = self._cohort(t, ids, stats, linked[self.home].nonzero()[:, 0])
        p, learned, _, _ = weighed(mixing, mine.memory, part, self.circle)
        row_of = torch.zeros(self.k, dtype=p.dtype).index_add(0, self.home[ids], p)
        row_of = row_of / row_of.sum()
        return {i: row_of[i] for i in senders.tolist()}, learned


def _count(told: Told | None) -> int:
    return 0 if told is None else len(told.ids)
