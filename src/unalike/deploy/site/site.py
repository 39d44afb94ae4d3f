"""A site's side of a deployed run: its rows, its state and its own results stay here.

It builds the recipe itself, from the configuration that the coordinator sends and the shape of the
data, and answers one question at a time; every answer is a pure function of the question and of
what the site keeps.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unalike import channel, rng, tree
from unalike.deploy.privacy.masked_updates import MaskedUpdates
from unalike.deploy.privacy.noise import Source, hidden
from unalike.deploy.security.certificates import Credentials
from unalike.deploy.setup import preprocessing, targets
from unalike.deploy.setup.joining import Joined
from unalike.deploy.site import questions
from unalike.deploy.site.diary import Diary
from unalike.deploy.site.policy import Allowance, Policy
from unalike.deploy.site.state import KeptState
from unalike.deploy.wire.messages import Message, MessageError, fitted, message, under
from unalike.engine.client.beginning import judged_by
from unalike.engine.client.round import Call, Keys, Own, round_of
from unalike.engine.client.rows import extended
from unalike.engine.evaluation.client import Examiner
from unalike.engine.evaluation.judging import Exam
from unalike.engine.traffic.messages import completed, left_like, messages_of
from unalike.errors import UnalikeError
from unalike.federation.columns import NOTHING
from unalike.federation.data import TRAIN
from unalike.parts.mixing.questions import Own as Asked
from unalike.parts.mixing.questions import Question
from unalike.recipe import Kept, Program, Recipe
from unalike.rng import Key
from unalike.run.experiment.program import program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.run.saving.models import Models, copies
from unalike.tree import Params


class Site:
    """One client of a deployed run."""

    def __init__(
        self,
        name: str,
        joined: Joined,
        folder: Path,
        policy: Policy,
        identity: Credentials | None = None,
    ) -> None:
        """``folder`` is where it keeps its state; ``identity`` its certificate, if it has one."""
        self.name, self.joined, self.policy = name, joined, policy
        self.config, self.program = joined.config, Program()
        self.keys = Keys.of(self.config.seed)
        self.kept_state = KeptState(folder)
        self.allowance = Allowance(folder / "trained.txt", policy.max_rounds)
        self.diary = Diary(folder, name, joined.config)
        self.raw = self.federation = joined.federation
        secret = joined.config.deploy.noise == "secret"
        self.source = Source(folder / "noise.key") if secret else None
        self.masked_updates: MaskedUpdates | None = None
        if joined.config.deploy.secure_aggregation:
            self.masked_updates = MaskedUpdates(name, joined.run, folder, identity)
        self._handlers: dict[str, Callable[[Message], Message]] = {
            "learn": self._learn,
            "prepare": self._prepare,
            "begin": self._begin,
            "survey": self._survey,
            "train": self._train,
            "keys": self._keys,
            "mask": self._mask,
            "unmask": self._unmask,
            "refuse": self._refuse,
            "evaluate": self._evaluate,
            "ensemble": self._ensemble,
            "flying": self._flying,
            "finish": self._finish,
        }
        self.recipe: Recipe | None = None
        self.finished = False

    def answer(self, question: Message) -> Message:
        """The answer to a question, or a refusal that says why there is none."""
        try:
            if question.head.run != self.joined.run:
                raise MessageError(f"'{question.head.run}' is not the run this site has joined.")
            questions.check(question)
            if question.kind != "evaluate":  # what this site knows about itself need not be sent
                self.policy.check(question)
            return self._handlers[question.kind](question)
        except UnalikeError as error:
            return self._refused(question, str(error))

    def _refused(self, question: Message, why: str) -> Message:
        self.diary.refused(question.kind, why)
        return self._said(question, "refusal", why=why)

    def _said(self, question: Message, kind: str = "answer", tensors: Any = (), **note: Any) -> Any:
        head = question.head
        return message(kind, head.run, head.number, self.name, tensors, note)  # type: ignore[arg-type]

    def _learn(self, question: Message) -> Message:
        """Counts and sums over training rows, as far as features are prepared already."""
        if question.note.get("sizes"):
            return self._said(
                question, tensors={"rows": torch.tensor(len(self.raw.rows(TRAIN).order))}
            )
        so_far = "['so_far_"
        told = {f"['{k[len(so_far) :]}": v for k, v in question.tensors.items() if so_far in k}
        asked = {k: v for k, v in question.tensors.items() if so_far not in k}
        self._dealt(told)
        rows = self.raw.rows(TRAIN).order
        if any(f"['{name}']" in asked for name in targets.ASKED):
            return self._said(question, tensors=targets.counted(self.raw.examples.y, rows, asked))
        x = preprocessing.prepared(self.raw.examples.x, rows, told)
        return self._said(question, tensors=preprocessing.counted(x[rows], asked))

    def _dealt(self, told: dict[str, Tensor]) -> None:
        """The split, by the ranges of all sites once they are known."""
        if self.raw.examples.ranges is not None and "['edges']" in told:
            self.raw = self.joined.dealt(targets.ranged(self.raw.examples, told))

    def _prepare(self, question: Message) -> Message:
        """Features, and numbers to predict, as all sites prepare them."""
        self._dealt(question.tensors)
        e, rows = self.raw.examples, self.raw.rows(TRAIN).order
        x = preprocessing.prepared(e.x, rows, question.tensors)
        features = preprocessing.features(e.pending, question.tensors, e.x, rows)
        examples = replace(e, x=x, pending=NOTHING)
        if e.ranges is not None:
            examples = targets.scaled(examples, question.tensors)
        self.federation = replace(self.raw, examples=examples, features=features)
        return self._said(question)

    def _build(self) -> None:
        """The recipe, once it is known what features look like."""
        shape = Shape.of(self.federation)._replace(n_clients=self.joined.clients)
        made = task(self.config, shape.blank())
        self.program, _ = program(self.config, made, shape)
        self.policy.agree(self.program, self.config.deploy)
        self.w0 = made.init(rng.fold_in(rng.stream(self.config.seed, "init"), -2))

    def _begin(self, question: Message) -> Message:
        """A stage: the recipe of it, and what this site keeps before its first round."""
        self._build()
        stage, model = question.note["stage"], None
        if not 0 <= stage < len(self.program):
            raise MessageError(f"the recipe has no stage {stage + 1}.")
        recipe, w = self.program[stage].recipe, self.w0
        if stage > 0:
            start = self.program[stage].start
            like = left_like(self.program[stage - 1].recipe, self.w0, start)
            model = fitted(question.tensors, like, "the model of a stage")
            recipe = recipe.inherit(model)
            w = w if start == "fresh" else completed(model, w)
        if why := recipe.misfit(self.federation.examples.x):
            raise MessageError(why)
        recipe = hidden(recipe, self.source)
        self.recipe, self.w = recipe, w
        self.like = messages_of(recipe, w, rng.stream(self.config.seed, "server"))
        self.own = self._rows(recipe)
        own = self._continued(stage, w, question.note.get("unused", -1))
        self.kept_state.begin(stage, self._first(recipe, w if own is None else own))
        self.examiner = self._examiner(recipe)
        self.diary.begin(self.federation)
        return self._said(question)

    def _first(self, recipe: Recipe, w: Params) -> Kept:
        mine = recipe.algorithm.client_init(w, rng.fold_in(self.keys.init, self.joined.number))
        up = messages_of(recipe, w, rng.stream(self.config.seed, "server")).up
        return Kept(mine, channel.begin(recipe.channel, up))

    def _continued(self, stage: int, w: Params, unused: int) -> Params | None:
        """The model that this site was tested with, if a stage begins that continues with it."""
        if self.program[stage].start != "own":
            return None
        before = self.program[stage - 1]
        if not before.recipe.algorithm.personal_models:
            return None
        kept = self._first(before.recipe, self.w0)
        found = self.kept_state.left(stage - 1, kept, unused)
        if found is not None and found.stage == stage:
            return None  # it is in the stage already
        if found is not None and found.stage == stage - 1:
            kept = found.kept
        elif before.start != "fresh":
            raise MessageError(
                f"this site was away during all of stage {stage}, and stage {stage + 1} continues "
                "with what it would have kept then."
            )
        return judged_by(before.recipe.algorithm, w, self.keys.init, kept)

    def _rows(self, recipe: Recipe) -> Own:
        """The training rows, followed by those that the recipe's transform repeats."""
        e, mine, number = self.federation.examples, self.federation.rows(TRAIN), self.joined.number
        order, _, altered = extended(recipe, e, mine, range(number, number + 1), self.config.seed)
        return Own(number, e.x, e.y, order, altered, len(mine.order))

    def _examiner(self, recipe: Recipe) -> Examiner:
        e, judging = self.federation.examples, self.config.evaluation
        return Examiner(
            self.federation,
            recipe.algorithm,
            e.x,
            e.y,
            rng.stream(self.config.seed, "evaluation"),
            lambda ids: tree.stack([self.kept_state.get().mine] * len(ids)),
            torch.zeros(1, dtype=torch.long),
            lambda f, items: [f(item) for item in items],
            vectorized=False,
            chunk=1,
            exam=Exam(judging.ensemble, judging.train),
            lone=True,
        )

    def _survey(self, question: Message) -> Message:
        e, mine = self.federation.examples, self.federation.rows(TRAIN).order
        key = rng.fold_in(rng.stream(self.config.seed, "survey"), self.joined.number)
        own = Asked(e.strata[mine.numpy()], e.classes, lambda: e.x[mine])
        answers = {q.name: q.answer(own, self._drawn(q, key)) for q in self._begun().survey}
        found = {name: torch.from_numpy(answer) for name, answer in answers.items()}
        return self._said(question, tensors=found)

    def _drawn(self, q: Question, key: Key) -> Key:
        """The random numbers for an answer: noise for privacy comes from the site's secret."""
        if self.source is None or not getattr(q, "epsilon", None):
            return key
        return self.source.key(f"survey {q.name}")

    def _train(self, question: Message) -> Message:
        recipe, note = self._begun(), question.note
        call = Call(note["round"], note["role"], note["reply"], float(note["epochs"]))
        down = fitted(question.tensors, self.like.down, "the download")
        self.allowance.spend(question)
        if 0 <= (unused := note["unused"]) < call.round:  # it was not counted then
            self.kept_state.refuse(unused)
        kept = self.kept_state.before(call.round)
        answer = round_of(recipe, self.own, call, down, kept, self.keys)
        stats = {k: float(v) for k, v in answer.stats.items()}
        work = {k: stats.pop(k) for k in ("samples", "gradients", "looked")}
        work["slots"] = work["samples"]  # a single client is not padded
        note = {"stats": {"examples": float(self.own.size), **stats}, "work": work}
        wire = answer.wire if call.reply else ()
        sent = tree.size_bytes(wire)
        if self.masked_updates is not None and call.reply:  # the sum of all is asked for later
            note["stats"]["norm"], note["exponents"] = self.masked_updates.hold(call.round, wire)
            wire = ()
        self.kept_state.put(call.round, answer.kept)
        self.diary.trained(call.round + 1, work, tree.size_bytes(down), sent)
        return self._said(question, tensors=wire, **note)

    def _sealed(self) -> MaskedUpdates:
        if self.masked_updates is None:
            raise MessageError("updates of this run are sent one by one; nothing is summed.")
        return self.masked_updates

    def _keys(self, question: Message) -> Message:
        return self._said(question, **self._sealed().introduce())

    def _mask(self, question: Message) -> Message:
        return self._said(question, tensors=self._sealed().masked(question))

    def _unmask(self, question: Message) -> Message:
        return self._said(question, tensors=self._sealed().opened(question))

    def _refuse(self, question: Message) -> Message:
        self.kept_state.refuse(question.note["round"])
        return self._said(question)

    def _evaluate(self, question: Message) -> Message:
        downs, models = self._judged(question)
        found = self.examiner.evaluate(downs, models)
        self.diary.select(question.note["selected"])
        newest = self._models(question, downs, models) if self.config.split.validation else None
        self.diary.judged(question.note["round"], found, newest)
        self.policy.check(question)
        verdicts = {
            section: {
                "metrics": {k: v.double() for k, v in judged.metrics.items()},
                "bins": () if judged.bins is None else dict(judged.bins._asdict()),
            }
            for section, judged in found.items()
            if section != "global" or models[0] is not None  # no ensemble over others' rows
        }
        return self._said(question, tensors=verdicts)

    def _ensemble(self, question: Message) -> Message:
        self._refuse_alone()
        downs, _ = self._judged(question)
        x, noise = (under(question.tensors, part)[""] for part in ("x", "noise"))
        e, task = self.federation.examples, self._begun().algorithm.task
        if x.shape[1:] != e.x.shape[1:] or x.dtype != e.x.dtype or len(noise) != len(x):
            raise MessageError("the rows to test on do not have the form of this site's own.")
        with torch.no_grad():
            w = self.examiner.model(downs, 0)
            return self._said(question, tensors={"out": task.outputs(w, x, noise)})

    def _judged(self, question: Message) -> tuple[Any, list[Params | None]]:
        """(the download with a leading axis, the coordinator's model if there is one)."""
        down = fitted(under(question.tensors, "down"), self.like.down, "the download")
        told, named = under(question.tensors, "model"), tree.named(down)
        same = question.note.get("same", {})
        if not set(same.values()) <= named.keys():
            raise MessageError("a download is said to contain a model but does not.")
        told |= {name: named[at] for name, at in same.items()}
        model = fitted(told, self.w0, "the model") if told else None
        return tree.map(lambda x: x[None], down), [model]

    def _refuse_alone(self) -> None:
        if self.masked_updates is not None:
            raise MessageError("updates of this run are summed, so no single model is sent.")

    def _flying(self, question: Message) -> Message:
        self._refuse_alone()
        model = self._begun().algorithm.flying(self.kept_state.get().mine)
        return self._said(question, tensors={} if model is None else model)

    def _models(self, question: Message, downs: Any, held: list[Params | None]) -> Models:
        network = self._begun().algorithm.task.network
        return copies(self.examiner, network, question.note["round"], downs, held)

    def _finish(self, question: Message) -> Message:
        """The run is over: the shared model and this site's own stay here."""
        models = self._models(question, *self._judged(question))
        self.diary.finish(models, question.note["selected"])
        self.finished = True
        return self._said(question)

    def _begun(self) -> Recipe:
        if self.recipe is None:
            raise MessageError("no stage was begun; a coordinator sends 'begin' first.")
        return self.recipe
