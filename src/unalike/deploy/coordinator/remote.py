"""The border to remote sites: the same transport interface as in a simulation.

Every answer is decoded by the template that the recipe declares and checked before it is used. A
site that is silent, refuses or sends something else takes no part in the round, and the reason is
recorded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unalike import channel, rng, tree
from unalike.deploy.coordinator import verdicts
from unalike.deploy.privacy.masked_sums import Sums
from unalike.deploy.wire.exchange import AGAIN, Exchange
from unalike.deploy.wire.messages import Message, MessageError, fitted, message, numbers
from unalike.engine.traffic.messages import messages_of
from unalike.engine.transport import Clients, Opening, Replies, Work
from unalike.errors import RunError
from unalike.parts.mixing.questions import Question
from unalike.parts.participation.schedule import Plan, Sampled
from unalike.tasks import Judged
from unalike.tree import Params, Tree

SMALL = 64 << 20  # bytes of answers other than models: results, surveys, heads
ATTEMPTS = 8  # at one question, by a site that keeps joining again


class Remote:
    """A transport to named sites."""

    def __init__(
        self,
        exchange: Exchange,
        run: str,
        names: Sequence[str],
        sizes: Tensor,
        seed: int,
        *,
        seconds: float = 3600.0,
        prepare: Tree = (),
        heard: Callable[[str, str], None] = lambda site, what: None,
        sealed: bool = False,
    ) -> None:
        """``names`` by number; ``seconds`` a site has for an answer; ``heard`` what went wrong.

        If it is ``sealed``, sites tell sums of their updates and no single one.
        """
        self.exchange, self.run, self.names, self.seed = exchange, run, tuple(names), seed
        self.clients = Clients(len(self.names), sizes)
        self.seconds, self.prepare, self.heard = seconds, prepare, heard
        self.device = torch.device("cpu")
        self.sums = Sums(self) if sealed else None
        self._number, self._told = 0, dict[int, int]()
        self.why: dict[str, str] = {}  # what was wrong with whom when sites were last asked
        self._wire: Tree = ()  # the upload that was checked last
        self.unused: dict[int, int] = {}  # who may have trained in a round and was not counted
        self.undone: dict[int, int] = {}  # the same when the stage began
        self.round, self.trained = -1, torch.zeros(0, dtype=torch.long)
        self.judging = {"round": 1, "selected": 0}  # what sites receive besides a model to test

    def begin(self, opening: Opening) -> None:
        """Sites are informed with their next question.

        They continue from a stage once they have been informed of it, even if they took no part in
        it.
        """
        if opening.onward:
            self._introduce([i for i in self._all if not self._knows(i)])
        self.recipe, self.w, self.stage, self.inherited, _ = opening
        recipe, w = opening.recipe, opening.w
        self.like = messages_of(recipe, w, rng.stream(self.seed, "server"))
        first = recipe.algorithm.client_init(w, rng.key(0))
        largest = max(map(tree.size_bytes, (self.like.wire, self.like.up, w)))
        self.exchange.limit = largest + SMALL
        if self.sums is not None:
            self.sums.begin(self.like.wire)
        self.flies = recipe.algorithm.flying(first) is not None
        self._told, self.undone = {}, dict(self.unused)

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """Every site must answer."""
        everybody = range(self.clients.n)
        asked = self.ask(
            "survey", {i: {} for i in everybody}, {}, lambda m, _: surveyed(m, questions)
        )
        got = {i: m.tensors for i, m in asked}
        silent = [self.names[i] for i in everybody if i not in got]
        if silent:
            why = self.why.get(silent[0], "").rstrip(".")
            raise RunError(
                f"site '{silent[0]}' did not answer the survey ({why}), "
                "and the method needs it; repair the site and resume."
            )
        answers = {}
        for q in questions:
            rows = [got[i][f"['{q.name}']"] for i in everybody]
            for i, row in enumerate(rows):
                if row.shape != rows[0].shape or row.dtype != rows[0].dtype:
                    raise RunError(
                        f"sites '{self.names[0]}' and '{self.names[i]}' answered the survey in "
                        "different forms."
                    )
            answers[q.name] = torch.stack(rows)
        return answers

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """Ask every planned site; each answer is a part of its own."""
        self.round, done = t, []
        asked = {
            i: {
                "round": t,
                "role": int(plan.role[j]),
                "reply": bool(plan.reply[j]),
                "epochs": float(plan.epochs[j]),
                "unused": self.unused.get(i, -1),
            }
            for j, i in enumerate(plan.ids.tolist())
        }
        rows = {h: tree.row(downs, h) for h in home.unique().tolist()}
        tensors = {i: rows[int(home[i])] for i in asked}
        self.unused |= dict.fromkeys(asked, t)
        enough = self._enough(t, plan)
        for i, m in self.ask("train", asked, tensors, self._reply):
            done.append(i)
            del self.unused[i]
            stats, work = m.note["stats"], Work(**m.note["work"])
            told = {k: torch.tensor([stats[k]]) for k in stats if k in self._numbers}
            if not asked[i]["reply"]:
                yield Replies(torch.zeros(0, dtype=torch.long), (), {}, work)
            elif self.sums is not None:
                self.sums.exponents[i] = self.sums.read(m)
                yield Replies(torch.tensor([i]), (), told, work)
            else:
                wire, self._wire = tree.map(lambda x: x[None], self._wire), ()
                del m  # an upload is held once, where it is summed
                yield Replies(torch.tensor([i]), wire, told, work)
                del wire
            if len(done) == enough:  # more were invited, so that some may be late
                break
        self.trained = torch.tensor(sorted(done), dtype=torch.long)

    def _enough(self, t: int, plan: Plan) -> int:
        """How many answers end a round."""
        schedule, n = self.recipe.schedule, len(plan.ids)
        if isinstance(schedule, Sampled) and schedule.participation.extra:
            return min(n, schedule.size(t, self.clients.n))
        return n

    @property
    def _numbers(self) -> set[str]:
        """The statistics that the recipe declares."""
        own = {"examples", "steps", *self.recipe.needs} - {"gram", "sqnorm"}
        return own | ({"norm"} if self.sums is not None else set())

    def _reply(self, m: Message, asked: Mapping[str, Any]) -> None:
        """Raise MessageError unless an answer to a round is what the recipe declares."""
        if asked["reply"] and self.sums is None:
            self._wire = fitted(m.tensors, self.like.wire, "an upload")
            try:
                channel.decode(self.recipe.channel, self._wire)
            except (RuntimeError, ValueError, IndexError):  # a code that is none
                raise MessageError("an upload cannot be decoded.") from None
        elif asked["reply"] and self.sums is not None:
            fitted(m.tensors, (), "an upload whose sum is requested later")
            self.sums.read(m)
        stats = numbers(m.note.get("stats"), "the statistics of an upload")
        wanted = self._numbers if asked["reply"] else self._numbers - {"norm"}
        if missing := wanted - stats.keys():
            raise MessageError(f"the statistics of an upload lack '{min(missing)}'.")
        size = int(self.clients.sizes[self.names.index(m.head.sender)])
        if stats["examples"] != size or stats["steps"] < 0:
            raise MessageError(
                f"an upload claims {stats['examples']:g} examples, and the site has {size}."
            )
        work = numbers(m.note.get("work"), "the work of an upload")
        if work.keys() != set(Work._fields) or min(work.values()) < 0:
            raise MessageError("the work of an upload is malformed.")

    def refuse(self, ids: Sequence[int]) -> None:
        """Sites go back to what they had before the round."""
        for _ in self.ask("refuse", {i: {"round": self.round} for i in ids}):
            pass

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """Sites test models; their results are put side by side."""
        notes, each = self._to_judge(downs, models)
        asked = self.ask("evaluate", notes, each, lambda m, _: verdicts.read(m))
        got = {i: verdicts.read(m) for i, m in asked}
        sections = dict.fromkeys(s for v in got.values() for s in v)
        if not sections:
            raise RunError("no site tested the model, so there is nothing to record; resume later.")
        found = {
            s: verdicts.side_by_side({i: v[s] for i, v in got.items() if s in v}, self.clients.n)
            for s in sections
        }
        if "global" in found:
            found["global"] = verdicts.together(found["global"])
        return found

    def finish(self, downs: Tree, models: Sequence[Params | None]) -> None:
        """The run is over: sites get the last model, and keep it with their own."""
        for _ in self.ask("finish", *self._to_judge(downs, models)):
            pass

    def _to_judge(
        self, downs: Tree, models: Sequence[Params | None]
    ) -> tuple[dict[int, dict[str, Any]], dict[int, Tree]]:
        """Notes and tensors for all sites; what a model shares with the download is sent once."""
        down, model = tree.row(downs, 0), dict(models[0] or {})
        there, same = tree.named(down), dict[str, str]()
        for name, x in tree.named(model).items():
            like = [k for k, y in there.items() if k.endswith(name) and torch.equal(x, y)]
            same |= {name: like[0]} if like else {}
        apart = {k: x for k, x in model.items() if f"['{k}']" not in same}
        note = {**self.judging, "same": same}
        each: Tree = {"down": down, "model": apart}
        return dict.fromkeys(self._all, note), dict.fromkeys(self._all, each)

    @property
    def _all(self) -> range:
        return range(self.clients.n)

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """What the sites' own models say together of rows that the coordinator has."""
        down = tree.row(downs, 0)
        each = {i: {"down": down, "model": (), "x": x, "noise": noise} for i in self._all}
        like = self.recipe.algorithm.task.outputs(self.w, x, noise)
        asked = self.ask(
            "ensemble",
            {i: {} for i in each},
            each,
            lambda m, _: fitted(m.tensors, {"out": like}, "an output"),
        )
        outs = [m.tensors["['out']"] for _, m in asked]
        return self.recipe.algorithm.task.merge(iter(outs), how)

    def mean_weights(self, downs: Tree) -> Params:
        """Personal models stay where they are."""
        raise RunError(
            "evaluation.ensemble = 'weights' would collect the sites' personal models; use "
            "'probabilities' or 'votes'."
        )

    def in_flight(self) -> dict[int, Params]:
        """The mean, by examples, of the models that sites keep after this round."""
        if not self.flies or not len(self.trained):
            return {}
        notes = {i: dict[str, Any]() for i in self.trained.tolist()}
        asked = self.ask("flying", notes, {}, lambda m, _: fitted(m.tensors, self.w, "a model"))
        got = {i: fitted(m.tensors, self.w, "a model") for i, m in asked}
        if not got:
            return {}
        sizes = self.clients.sizes[list(got)].double()
        return {0: tree.mean(sizes / sizes.sum(), tree.stack(list(got.values())))}

    def ask(
        self,
        kind: str,
        notes: Mapping[int, Mapping[str, Any]],
        tensors: Mapping[int, Tree] = {},
        check: Callable[[Message, Mapping[str, Any]], object] = lambda m, asked: None,
    ) -> Iterator[tuple[int, Message]]:
        """Sound answers as they come; sites that have not heard of the stage are told first."""
        self.why = {}
        open_ = set(notes)
        for _ in range(ATTEMPTS):
            self._introduce([i for i in open_ if not self._knows(i)])
            asked = {self.names[i]: i for i in sorted(open_) if self._knows(i)}
            questions = {
                n: self._question(kind, notes[i], tensors.get(i, ())) for n, i in asked.items()
            }
            for name, m in self.exchange.ask(questions, self.seconds):
                i = asked[name]
                if m == AGAIN:
                    continue
                open_.discard(i)
                try:
                    check(self._sound(m), notes[i])
                except MessageError as error:
                    self._complain(name, str(error))
                else:
                    yield i, self._sound(m)
            open_ = {i for i in open_ if not self._knows(i) and self.names[i] not in self.why}
            if not open_:
                return

    def _knows(self, i: int) -> bool:
        """Whether a site has been told where the run is since it last joined."""
        return self._told.get(i) == self.exchange.session(self.names[i]) > 0

    def _sound(self, m: Message | str) -> Message:
        if isinstance(m, str):
            raise MessageError(m)
        if m.kind == "refusal":
            raise MessageError(f"it refuses: {m.note.get('why', 'no reason given')}")
        return m

    def _complain(self, name: str, what: str) -> None:
        self.why[name] = what
        self.heard(name, what)

    def _introduce(self, sites: list[int]) -> None:
        """Inform sites that have just joined about the state of the run."""
        told = {self.names[i]: i for i in sites}
        before = {i: self.exchange.session(self.names[i]) for i in sites}
        messages: list[tuple[str, dict[str, Any], Tree]] = [
            ("begin", {"stage": self.stage}, self.inherited or ())
        ]
        if tree.leaves(self.prepare):
            messages.insert(0, ("prepare", {}, self.prepare))
        if self.sums is not None:
            messages.append(("keys", {}, ()))
        for kind, note, tensors in messages:
            questions = {
                name: self._question(kind, note | self._unused(kind, i), tensors)
                for name, i in told.items()
            }
            for name, m in self.exchange.ask(questions, self.seconds):
                try:
                    sound = self._sound(m)
                    if kind == "keys" and self.sums is not None:
                        self.sums.met(told[name], sound)
                except MessageError as error:
                    del told[name]
                    if m != AGAIN:
                        self._complain(name, str(error))
        self._told |= {i: before[i] for i in told.values()}

    def _unused(self, kind: str, i: int) -> dict[str, int]:
        """What a site must not take from a stage into the next."""
        return {"unused": self.undone.get(i, -1)} if kind == "begin" else {}

    def _question(self, kind: str, note: Mapping[str, Any], tensors: Tree) -> Message:
        self._number += 1
        return message(kind, self.run, self._number, "coordinator", tensors, note)  # type: ignore[arg-type]


def surveyed(m: Message, questions: Sequence[Question]) -> None:
    """Raise MessageError unless a site answers the questions of a survey, with finite numbers."""
    if m.tensors.keys() != {f"['{q.name}']" for q in questions}:
        raise MessageError("its answers do not belong to the questions of the recipe.")
    fitted(m.tensors, {q.name: m.tensors[f"['{q.name}']"] for q in questions}, "its answer")
