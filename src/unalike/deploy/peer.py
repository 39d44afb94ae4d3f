"""A peer of a run without a coordinator: what others may ask of it, and how it gets to know them.

Everybody has the recipe and the list of peers, and draws the same conclusions from all hellos, so
nobody has to decide anything for the others. A run's name is the digest of what all must have in
common.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import grpc  # type: ignore[import-untyped]
import torch
from torch import Tensor

from unalike import tree
from unalike.deploy.agreement import Agreement, Hello, agree, read_hello, welcome
from unalike.deploy.audit import Audit
from unalike.deploy.circle import PAUSE, SERVICE, Circle
from unalike.deploy.desk import NotJoined
from unalike.deploy.frames import HEAD, LIMIT, Parcel, pack, read
from unalike.deploy.joining import hello, join, refuse_simulated
from unalike.deploy.keys import Credentials
from unalike.deploy.learning import ask_scales, training_sizes
from unalike.deploy.messages import Message, MessageError, digest, message
from unalike.deploy.network import POLL, answered, listen
from unalike.deploy.policy import Policy
from unalike.deploy.preview import expected
from unalike.deploy.remembered import Remembered, remember, remembered
from unalike.deploy.remote import surveyed
from unalike.deploy.shelf import Item, Shelf
from unalike.deploy.site import Site
from unalike.errors import ConfigError, RunError
from unalike.federation.data import Examples
from unalike.parts.selection import Choosing
from unalike.recipe import Recipe
from unalike.run.configuration.config import Config
from unalike.run.configuration.topologies import TopologySettings
from unalike.run.experiment.build import chosen, program, task
from unalike.tree import Tree

Say = Callable[[str], None]
_NUMBERS = 1 << 42  # of questions that no transport counts


class Peer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Listens from the first moment; answers as soon as it has met all the others."""

    def __init__(
        self,
        name: str,
        config: Config,
        examples: Examples,
        addresses: Mapping[str, str],
        folder: Path,
        policy: Policy,
        credentials: Credentials | None,
        say: Say,
        *,
        at: str = "",
        seconds: float = 600.0,
        arrive: float = 3600.0,
    ) -> None:
        """``at`` is where it listens, if that is not the address that others dial."""
        refuse(config, addresses)
        if name not in addresses:
            raise ConfigError(f"'{name}' is not in the list of peers; add its address there.")
        shape = expected(examples, len(addresses))  # reported before anybody waits for this peer
        program(config, task(config, shape.blank()), shape)
        self.name, self.config, self.examples, self.policy = name, config, examples, policy
        self.names, self.folder, self.say = tuple(sorted(addresses)), folder, say
        self.seconds, self.arrive = seconds, arrive
        self.run = run_of(config, self.names)
        self.limit, self.secure = LIMIT, credentials is not None
        self.place = folder / "runs" / self.run
        self.shelf = Shelf(self.place / "shelf", len(addresses))
        self.audit = Audit(folder / "audit.jsonl")
        self.circle = Circle(name, addresses, credentials, self.audit, self.own)
        self.site: Site | None = None
        self._alone = threading.Lock()  # a site does one thing at a time
        self._ready, self._count = False, _NUMBERS
        self.server, self.port = listen(
            self, at or addresses[name], credentials, 4 + 4 * len(addresses)
        )

    # What others ask.

    def service(self, details: Any) -> Any:
        """The only call there is."""
        if details.method != f"{SERVICE}Ask":
            return None
        return answered(self._call, details, self.secure)

    def _call(self, caller: str, pieces: Iterator[bytes]) -> Parcel:
        if caller not in self.names or caller == self.name:
            raise MessageError(f"'{caller}' is not a peer of this run.")
        arrived = read(pieces, self.limit)
        asked = arrived.message
        if asked.head.sender != caller:
            raise MessageError(
                f"a message in the name of '{asked.head.sender}' came from '{caller}'."
            )
        if asked.head.run != self.run:
            raise MessageError(
                f"peers '{caller}' and '{self.name}' have different recipes, lists of peers or "
                "versions of unalike; give all of them the same."
            )
        self.audit.append("received", caller, asked.kind, asked.head.number, arrived)
        told = pack(self._answer(caller, asked))
        if self.shelf.closed:
            raise NotJoined("this peer has left.")
        self.audit.append("sent", caller, "answer", asked.head.number, told)
        return told

    def _answer(self, caller: str, asked: Message) -> Message:
        if asked.kind == "hello":
            note = {"hello": hello(self.examples, self.policy.tell), "round": self.shelf.round}
            return self._said(asked, Item({}, note))
        if asked.kind == "fetch":
            return self._fetched(caller, asked)
        if self.site is None or not (self._ready or asked.kind == "learn"):
            raise NotJoined("this peer is not connected to all the others yet.")
        if asked.kind == "learn":
            return self.own(asked)
        me = self.agreed.names.index(self.name)
        who = self.agreed.names.index(caller)
        if asked.kind == "survey" and me in self.surveyed(who):
            return self.own(asked)
        t = asked.note.get("round", 0)
        serves = isinstance(t, int) and self.server_of(me, t) == who
        if asked.kind in ("begin", "train", "refuse") and (serves or self.moves):
            return self.own(asked)
        raise MessageError(f"'{asked.kind}' is not something '{caller}' may ask '{self.name}' for.")

    def _fetched(self, caller: str, asked: Message) -> Message:
        what, t, wait = (asked.note.get(k) for k in ("what", "round", "wait"))
        if what not in ("tell", "state") or not isinstance(t, int):
            raise MessageError("a fetch must name what it wants and the round.")
        found = self.shelf.get(str(what), t, caller, POLL if wait else 0.0)
        item = Item({}, {}) if found is None else found
        note = {**item.note, "held": found is not None, "round": self.shelf.round}
        return self._said(asked, Item({} if asked.note.get("brief") else item.tensors, note))

    def _said(self, asked: Message, item: Item) -> Message:
        head = message("answer", self.run, asked.head.number, self.name, note=item.note).head
        return Message(head, item.tensors)

    def own(self, asked: Message) -> Message:
        """What this peer's own site answers."""
        assert self.site is not None, "it has met the others"
        if asked.kind == "begin":  # peers begin on their own
            return self._said(asked, Item({}, {}))
        with self._alone:
            answer = self.site.answer(asked)
        if asked.kind == "train" and answer.kind == "answer":
            self.shelf.move(int(asked.note["round"]))
        return answer

    # Meeting the others.

    def meet(self) -> None:
        """Wait for all the others, agree with them, prepare the features, begin."""
        known = self.place / "agreement.msg"
        told = remembered(known)
        hellos = self._hellos() if told is None else told.hellos
        self.agreed: Agreement = agree(hellos, self.config.seed)
        greeting = welcome(self.agreed, self.name, self.config, self.run)
        place = join(self.examples, greeting)
        site = Site(self.name, place, self.place, self.policy)
        self.site = site
        circle, run = self.circle, self.run
        scale: Tree = {}
        if told is None:
            scale = ask_scales(self.agreed, run, circle, self.arrive)
            self.sizes = training_sizes(self.agreed, self.config, run, circle, self.arrive)
        else:
            scale, self.sizes = told.scale, told.sizes
        if scale:
            self._do(site, message("prepare", run, 0, self.name, scale))
        self._do(site, message("begin", run, 0, self.name, note={"stage": 0}))
        if len(site.program) > 1:
            raise ConfigError(
                "the method has several stages, each of which starts from a model that all "
                "share, and peers have none; run it with 'unalike serve'."
            )
        assert site.recipe is not None, "it has begun"
        self.recipe: Recipe = site.recipe
        if isinstance(self.recipe.schedule, Choosing):
            raise ConfigError(
                "the method chooses clients by what all of them reported, which no peer sees; "
                "run it with 'unalike serve'."
            )
        self.n, self.me = len(self.names), self.agreed.names.index(self.name)
        self.home = self.recipe.topology.home(self.n)
        self.rounds = site.program[0].rounds
        server = self.recipe.algorithm.server_init(site.w, torch.zeros((), dtype=torch.int64))
        sizes = [*site.like[:3], server, self.recipe.algorithm.tells(tree.stack([server]))]
        self.limit = self.circle.limit = 2 * max(map(tree.size_bytes, sizes)) + 2 * HEAD
        self._ready = True
        self.survey = self._surveys() if told is None else dict(told.survey)
        if told is None:
            remember(known, run, Remembered(hellos, scale, self.sizes, self.survey))

    def _do(self, site: Site, asked: Message) -> None:
        """Something that a site does for itself."""
        answer = site.answer(asked)
        if answer.kind == "refusal":
            raise RunError(str(answer.note["why"]))

    def _hellos(self) -> dict[str, Hello]:
        """What all peers say of their data; says whom it waits for."""
        asked = self.question("hello")
        own = _noted(asked, hello(self.examples, self.policy.tell))
        found = {self.name: read_hello(asked._replace(head=own))}
        end, said = time.monotonic() + self.arrive, False
        while missing := sorted(set(self.names) - found.keys()):
            for name in missing:
                try:
                    m = self.circle.once(name, asked, 5.0)
                    found[name] = read_hello(m._replace(head=_noted(m, m.note.get("hello"))))
                except ConnectionError:
                    continue
                except MessageError as error:
                    raise RunError(f"peer '{name}': {error}") from None
            if missing := sorted(set(self.names) - found.keys()):
                if time.monotonic() > end:
                    raise RunError(
                        f"peer '{missing[0]}' did not connect within {self.arrive:g} seconds."
                    )
                if not said:
                    self.say(f"waiting for {', '.join(missing)}")
                said = True
                time.sleep(PAUSE)
        return found

    def _surveys(self) -> dict[str, Tensor]:
        """The answers of those whose answers this peer needs; zeros for the others."""
        questions, asked = self.recipe.survey, self.surveyed(self.me)
        if not questions or not asked:
            return {}
        got: dict[int, dict[str, Tensor]] = {}
        names = self.agreed.names
        each = {names[i]: self.question("survey") for i in asked}
        for name, m in self.circle.ask(each, self.arrive):
            if isinstance(m, str) or m.kind == "refusal":
                why = (m if isinstance(m, str) else str(m.note.get("why"))).rstrip(".")
                raise RunError(
                    f"peer '{name}' did not answer the survey ({why}), and the method needs it; "
                    "repair the peer and start again."
                )
            try:
                surveyed(m, questions)
            except MessageError as error:
                raise RunError(f"peer '{name}' did not answer the survey: {error}") from None
            got[names.index(name)] = m.tensors
        found = {}
        for q in questions:
            key = f"['{q.name}']"
            like = got[self.me][key] if self.me in got else next(iter(got.values()))[key]
            rows = torch.zeros(self.n, *like.shape, dtype=like.dtype)
            for i, tensors in got.items():
                if tensors[key].shape != like.shape or tensors[key].dtype != like.dtype:
                    raise RunError(f"peer '{names[i]}' answered the survey in the wrong form.")
                rows[i] = tensors[key]
            found[q.name] = rows
        return found

    # Who serves whom.

    @property
    def moves(self) -> bool:
        """Whether peers take turns as the server."""
        return self.recipe.topology.host(0, self.n) is not None

    def server_of(self, i: int, t: int) -> int:
        """The peer where the server of client ``i`` is in round ``t``."""
        host = self.recipe.topology.host(t, self.n)
        return int(self.home[i]) if host is None else host

    def surveyed(self, j: int) -> set[int]:
        """The clients whose answers a server at peer ``j`` needs."""
        if self.moves:
            return set(range(self.n))
        if j > int(self.home.max()):
            return set()
        heard = {j}
        for t in range(self.rounds):
            edges = self.recipe.topology.links(t, self.n)
            if edges is not None:
                heard |= set(edges[edges[:, 0] == j, 1].tolist())
        return {i for i in range(self.n) if int(self.home[i]) in heard}

    def question(self, kind: str, **note: Any) -> Message:
        """One of this peer's own."""
        self._count += 1
        return message(kind, self.run, self._count, self.name, note=note)  # type: ignore[arg-type]

    def whereabouts(self) -> int:
        """The latest round that any peer is in, of those that can be reached at once."""
        asked, latest = self.question("hello"), self.shelf.round

        def where(name: str) -> int:
            try:
                return int(self.circle.once(name, asked, 5.0).note["round"])
            except (ConnectionError, MessageError, KeyError, TypeError, ValueError):
                return 0

        with ThreadPoolExecutor(len(self.names)) as pool:
            others = [n for n in self.names if n != self.name]
            return max([latest, *pool.map(where, others)])

    def close(self) -> None:
        """Answer and ask nobody any more."""
        self.shelf.close()
        self.circle.closed = True
        self.server.stop(2.0).wait()
        self.circle.close()


def refuse(config: Config, addresses: Mapping[str, str]) -> None:
    """Raise one sentence if a configuration needs what peers cannot do."""
    refuse_simulated(config)
    if config.topology.name == "star":
        raise ConfigError(
            "topology 'star' has a coordinator: use 'unalike serve', or choose another topology, "
            "such as ring."
        )
    if config.topology.settings.get("cloud"):
        raise ConfigError(
            "topology.cloud adds a central server, which peers do not need; leave it out: the "
            "numbers are the same."
        )
    if config.deploy.secure_aggregation:
        raise ConfigError(
            "deploy.secure_aggregation hides updates from a coordinator, and peers have none; set "
            "it to false."
        )
    if config.clock.kind != "none":
        raise ConfigError(
            "the clock is simulated, and peers run in real time; set clock.kind = 'none'."
        )


def run_of(config: Config, names: tuple[str, ...]) -> str:
    """The name of a run: the same at all peers if they have the same recipe and list."""
    told = config.resolved()
    common = {k: v for k, v in told.items() if k not in ("data", "partition", "engine")}
    common["topology"] = {k: v for k, v in common["topology"].items() if k != "path"}
    links = cast(TopologySettings, chosen("topology", config.topology)).build().links(0, len(names))
    graph = [] if links is None else links.tolist()  # a file that it is read from may have changed
    return digest({"peers": sorted(names), "recipe": common, "graph": graph})


def _noted(m: Message, note: Any) -> Any:
    return m.head.model_copy(update={"note": note if isinstance(note, dict) else {}})
