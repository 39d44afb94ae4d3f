"""Rounds of peers that are the server in turn: each takes the state over from the one before.

A round is the same as with a coordinator, led by the peer whose turn it is. If the previous peer is
gone, its round is lost: the state of the last finished round is taken over instead, and clients
discard what they did in the lost one.
"""

from unalike import tree
from unalike.deploy.fetching import Fetching
from unalike.deploy.messages import MessageError, fitted
from unalike.deploy.peer import Peer
from unalike.deploy.remote import Remote
from unalike.deploy.shelf import Item
from unalike.engine.loop import Loop, Round, State
from unalike.engine.server.guard import Guard
from unalike.errors import RunError


class Turns:
    """The turns of one peer."""

    def __init__(self, peer: Peer, remote: Remote, guard: Guard) -> None:
        """Nothing has been asked yet."""
        assert peer.site is not None, "it has met the others"
        self.peer, self.remote, self.fetching = peer, remote, Fetching(peer)
        seed = peer.config.seed
        self.loop = Loop(peer.recipe, remote, range(peer.rounds), seed, guard)
        self.blank = self.loop.blank(peer.site.w)

    def mine(self, t: int) -> bool:
        """Whether round ``t`` is this peer's turn."""
        return self.peer.recipe.topology.host(t, self.peer.n) == self.peer.me

    def play(self, t: int) -> tuple[State, Round] | None:
        """This peer's turn; None if the others have continued without it."""
        shelf = self.peer.shelf
        before, state = self.state(t - 1)
        if (latest := self.peer.whereabouts()) > t:
            shelf.move(latest)
            return None
        for lost in range(before + 1, t):
            self.remote.round = lost
            self.remote.refuse(list(range(self.peer.n)))
        state, done = self.loop.advance(state, t)
        others = [n for n in self.peer.names if n != self.peer.name]
        last = t == self.peer.rounds - 1
        following = self.peer.recipe.topology.host(t + 1, self.peer.n) or 0
        readers = others if last else [self.peer.agreed.names[following]]
        item = Item(tree.named(state._replace(survey={})), {})
        shelf.put("state", t, item, [r for r in readers if r != self.peer.name])
        shelf.move(t + 1)
        return state, done

    def state(self, t: int) -> tuple[int, State]:
        """(the last round up to ``t`` that was finished and can be had, the state after it)."""
        like = self.blank._replace(survey={})
        for r in range(t, -1, -1):
            host = self.peer.recipe.topology.host(r, self.peer.n)
            assert host is not None
            name = self.peer.agreed.names[host]
            if host == self.peer.me:
                item = self.peer.shelf.get("state", r, name)
                found = None if item is None else item.tensors
            else:
                m = self.fetching.reachable("state", r, name)
                found = None if m is None else m.tensors
            if found is None:
                self.peer.say(f"round {r + 1} of '{name}' is lost; continuing without it")
                continue
            try:
                state: State = fitted(found, like, "the server's state")
            except MessageError as error:
                self.peer.say(f"peer '{name}': {error}")
                continue
            return r, state._replace(survey=self.peer.survey)
        if t >= self.peer.n:  # everybody has had a turn, so a state exists somewhere
            raise RunError(
                "no reachable peer has the state of the run; start the missing peers, then this "
                "one again."
            )
        return -1, self.blank._replace(survey=self.peer.survey)
