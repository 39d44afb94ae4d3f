"""A peer at work: meets the others, computes its rounds, saves its model in its own folder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unalike import rng, tree
from unalike.deploy.coordinator.remote import Remote
from unalike.deploy.peer.fetching import Fetching
from unalike.deploy.peer.gossip import Gossip
from unalike.deploy.peer.peer import Peer
from unalike.deploy.peer.shelf import Item
from unalike.deploy.peer.turns import Turns
from unalike.deploy.wire.messages import MessageError, fitted, message
from unalike.engine.transport import Opening
from unalike.errors import ConfigError, RunError
from unalike.run.experiment.cadence import as_set
from unalike.run.experiment.program import guard_of
from unalike.run.folder.records import LOGS, alone


def take_part(peer: Peer) -> Path:
    """All rounds, or those that are left; returns the folder with this peer's model and records."""
    with alone(peer.folder), _sentences(peer):
        peer.meet()
        peer.say(f"connected to {len(peer.names) - 1} other peers; this is client {peer.me}")
        assert peer.site is not None, "it has met the others"
        guard, remote = guard_of(peer.config, peer.site.program), _remote(peer)
        if peer.moves:
            server = _in_turn(peer, Turns(peer, remote, guard))
        elif guard.min_replies > 1:
            raise ConfigError(
                "faults.min_replies counts the answers of all clients, which no peer sees; set 1."
            )
        elif peer.me <= int(peer.home.max()):
            server = _gossiping(peer, Gossip(peer, remote, guard))
        else:
            server = _served(peer)
        verdicts = peer.site.diary.held[LOGS[1]]
        if not verdicts or verdicts[-1]["round"] < peer.rounds:
            _tell_own(peer, "evaluate", server, peer.rounds)
        _tell_own(peer, "finish", server, peer.rounds)
        peer.shelf.fetched("state", peer.rounds - 1, peer.seconds)
    return peer.place


@contextmanager
def _sentences(peer: Peer) -> Iterator[None]:
    """What the disk says becomes one sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"peer '{peer.name}' cannot write to '{peer.folder}' ({error.strerror}); make room, "
            "then start it again: it continues where it stopped."
        ) from None


def _remote(peer: Peer) -> Remote:
    """The border to the clients that this peer may be the server of."""
    agreed = peer.agreed
    remote = Remote(
        peer.connections,
        peer.run,
        agreed.names,
        peer.sizes,
        peer.config.seed,
        seconds=peer.seconds,
        heard=lambda name, what: peer.say(f"peer '{name}': {what}"),
    )
    assert peer.site is not None, "it has met the others"
    remote.begin(Opening(peer.recipe, peer.site.w))
    return remote


def _gossiping(peer: Peer, gossip: Gossip) -> Any:
    """The rounds of a server among others; the server at their end."""
    t, missing = gossip.next, dict[str, str]()
    while t < peer.rounds:
        peer.shelf.move(t)
        played = gossip.advance(t)
        if played.after > t + 1:
            peer.say(f"the others are already in round {played.after + 1}; continuing there")
            t = played.after
            continue
        record: dict[str, Any] = {"round": t + 1, "clients": played.clients}
        record |= {"heard": played.heard, "missing": played.missing}
        _record(peer, gossip.mine.server, record, t)
        heard = f"heard {len(played.heard)}"
        lacking = f", not {', '.join(sorted(played.missing))}" if played.missing else ""
        peer.say(f"round {t + 1} of {peer.rounds}: {heard}{lacking}")
        t, missing = played.after, played.missing
    peer.shelf.move(peer.rounds)
    server = gossip.mine.server
    served = [peer.agreed.names[i] for i in gossip.members.tolist() if i != peer.me]
    peer.shelf.put("state", peer.rounds - 1, Item(tree.named(server), {}), served)
    peer.shelf.fetched("tell", peer.rounds - 1, peer.seconds, missing)
    return server


def _in_turn(peer: Peer, turns: Turns) -> Any:
    """This peer's turns; the server after the last round."""
    for t in filter(turns.mine, range(peer.rounds)):
        if peer.shelf.get("state", t, peer.name) is not None:
            continue  # it was computed before this peer was stopped
        found = turns.play(t)
        if found is None:
            peer.say(f"round {t + 1} was this peer's turn, and the others continued without it")
            continue
        state, done = found
        names = [peer.agreed.names[i] for i in done.ids.tolist()]
        record = {"round": t + 1, "heard": dict(zip(names, done.weights.tolist(), strict=True))}
        _record(peer, tree.row(state.stack, 0), record, t)
        peer.say(f"round {t + 1} of {peer.rounds}, this peer's turn: heard {len(names)}")
    _, state = turns.state(peer.rounds - 1)
    return tree.row(state.stack, 0)


def _served(peer: Peer) -> Any:
    """A peer that is only a client waits for what its server arrives at."""
    name = peer.agreed.names[int(peer.home[peer.me])]
    m = Fetching(peer).reachable("state", peer.rounds - 1, name)
    assert peer.site is not None, "it has met the others"
    like = peer.recipe.algorithm.server_init(peer.site.w, rng.key(0))
    if m is None:
        raise RunError(f"peer '{name}', which serves this one, cannot be reached; start both.")
    try:
        return fitted(m.tensors, like, "the server")
    except MessageError as error:
        raise RunError(f"peer '{name}': {error}") from None


def _record(peer: Peer, server: Any, record: dict[str, Any], t: int) -> None:
    """Who was heard, in a separate record; evaluated as often as the recipe says, as at a site."""
    with (peer.place / "heard.jsonl").open("a", encoding="utf-8") as f:
        f.write(json.dumps(record) + "\n")
    if (t + 1) % as_set(peer.config).every == 0:
        _tell_own(peer, "evaluate", server, t + 1)


def _tell_own(peer: Peer, kind: str, server: Any, number: int) -> None:
    """What a coordinator would send to this peer's site, recorded for its own people."""
    assert peer.site is not None, "it has met the others"
    algorithm = peer.recipe.algorithm
    model = algorithm.model(server, rng.stream(peer.config.seed, "evaluation"))
    told = {"down": algorithm.broadcast(server), "model": model or ()}
    note = {"round": number, "selected": 0}
    answer = peer.own(message(kind, peer.run, 0, peer.name, told, note))  # type: ignore[arg-type]
    if kind == "finish" and answer.kind == "refusal":
        raise RunError(str(answer.note["why"]))
