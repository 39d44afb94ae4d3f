"""Local steps on a CPU without Python between them: one is traced, then looped over.

A step of a small network takes longer to launch from Python than to compute. It is a pure function
of static shape, so its tensor operations are recorded once (``recording.py``), the backward pass
included. The graph is simplified (``rewriting.py``), and a loop over clients and their steps runs
in machine code or in TorchScript's interpreter (``tracing.py``), neither of which holds Python's
lock: two threads use two cores.
"""

import copy
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import mapped, tree
from unalike.batches import Batches
from unalike.engine.compiled.tracing import Program, Untraceable, trace
from unalike.errors import warn_once
from unalike.gradient import counted
from unalike.native.program import Crew, Native

MOST = 64  # programs that are kept, and that one simulation may ask for


class Form(NamedTuple):
    """All of a tree but its tensors."""

    structure: Any
    leaves: tuple[Any, ...]  # None where a tensor was


class Programs:
    """Programs by the kind of their step, for all rounds, runs and threads of a process."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, Program | Untraceable] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, kind: Hashable, make: Callable[[], Program]) -> Program | Untraceable:
        """The program of a kind, or why there is none; made when it is first asked for."""
        with self._lock:
            if kind in self._found:
                self._found.move_to_end(kind)
                return self._found[kind]
            try:
                found: Program | Untraceable = make()
            except Exception as error:  # whatever a user's module does that no trace can hold
                why = str(error).strip() or type(error).__name__
                found = Untraceable(why.splitlines()[0])
            self._found[kind] = found
            if len(self._found) > MOST:
                self._found.popitem(last=False)
            return found


PROGRAMS = Programs()


class Traced:
    """Runs the folds of a simulation as traced loops."""

    def __init__(self, said: bool = True, native: bool = False) -> None:
        """``said`` is whether a refusal is a warning too; ``native``, whether steps are compiled.

        One that cannot be compiled is traced alone.
        """
        self.said, self.native = said, native
        self.crew: Crew | None = None  # computes several clients at the same time
        self.kinds: set[Hashable] = set()  # of steps that were asked for
        self.refusals: list[str] = []

    def by(self, crew: Crew | None) -> "Traced":
        """The same, computed by a crew."""
        other = copy.copy(self)
        other.crew = crew
        return other

    def __call__(
        self, data: Batches, step: Callable[..., Any], carry: Any, given: Any, batches: int
    ) -> tuple[Any, int] | None:
        """(the carry after all steps, how many gradients one takes); None if Python has to do it.

        For one client alone, or for those that vmap hides. Whether a step is traced depends on it
        and on shapes, never on values.
        """
        several = mapped.once()
        if mapped.here() and not several:
            return None
        ready = self.ready(data, step, carry, given, batches)
        with mapped.outside():
            found = None
            if ready.program is not None:
                found = ready.program.run(*ready.given, self.crew), ready.program.passes
            elif several:
                found = _by_python(ready)
        if found is None:
            return None
        out, passes = found
        return ready.joined([mapped.wrap(x) if several else x[0] for x in out]), passes

    def ready(
        self, data: Batches, step: Callable[..., Any], carry: Any, given: Any, batches: int
    ) -> "Ready":
        """All steps of a fold, before any is taken."""
        (held, form), (more, shape) = _parted(carry), _parted(given)
        with mapped.outside():
            times = data.extent.each(batches).tolist()
            now, n = data.by_step(batches), len(times)
            held = [_in_order(_stacked(x, n)) for x in held]
            fixed = [_stacked(x, n) for x in (*more, data.x, data.y, data.root)]
            rows = ((x.shape[2:], x.stride()[2:], x.dtype) for x in (*now, *fixed[-3:-1]))
            kinds = map(_kind, (*held, *fixed[:-3]))
            kind = (step, batches, data.transform, form, shape, *kinds, *rows, self.native)
            call = _Call(data, step, form, shape, len(held), len(fixed) - 3, batches)
            try:
                program = self._program(kind, call, times, (held, fixed, now))
            except Untraceable as error:
                self._refuse(str(error))
                return Ready(None, times, held, fixed, now, call)
        if program.unbuilt:
            warn_once(
                f"local steps are not compiled, so they are slower ({program.unbuilt}); "
                "engine.compiled = false hides this."
            )
        return Ready(program, times, held, fixed, now, call)

    def _program(
        self, kind: Hashable, call: "_Call", times: list[int], stacked: tuple[list[Tensor], ...]
    ) -> Program:
        never = Untraceable("it is not the same from one round to the next")
        try:
            if kind not in self.kinds and len(self.kinds) >= MOST:
                raise never
            self.kinds.add(kind)
        except TypeError:  # not hashable
            raise never from None
        longest = times.index(max(times))

        def made() -> Program:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that TorchScript is old
                tensors = ([x[longest] for x in xs] for xs in stacked)
                return trace(call, self.native, times[longest], *tensors)

        found = PROGRAMS(kind, made)
        if isinstance(found, Untraceable):
            raise found
        return found

    def _refuse(self, why: str) -> None:
        if why not in self.refusals:
            self.refusals.append(why)
            if self.said:
                warn_once(
                    "a local step of this model or method cannot be traced, so Python runs every "
                    f"step, which is slower; engine.traced = false hides this ({why})."
                )


class _Call(NamedTuple):
    """A step as a function of tensors alone."""

    data: Batches
    step: Callable[..., Any]
    form: Form
    given: Form
    n_carry: int
    n_given: int
    batches: int

    def __call__(self, *flat: Tensor) -> tuple[list[Tensor], int]:
        """(the next carry, how many gradients were taken)."""
        a, b = self.n_carry, self.n_carry + self.n_given
        x, y, root, *now = flat[b:]
        carry, given = _joined(flat[:a], self.form), _joined(flat[a:b], self.given)
        with counted() as passes:
            new = self.step(carry, self.data.shown(x, y, root, now, self.batches), given)
        found, form = _parted(new)
        if form != self.form or any(map(_unlike, found, flat)):
            raise Untraceable("its output has another form than its input")
        return found, sum(passes)


class Ready(NamedTuple):
    """All steps of a fold before they are taken; clients are a leading axis of all tensors."""

    program: Program | None  # None if Python has to do it
    times: list[int]
    carry: list[Tensor]
    fixed: list[Tensor]
    now: list[Tensor]
    call: _Call

    @property
    def given(self) -> tuple[list[int], list[Tensor], list[Tensor], list[Tensor]]:
        """What a program takes."""
        return self.times, self.carry, self.fixed, self.now

    def of(self, some: slice) -> tuple[list[int], list[Tensor], list[Tensor], list[Tensor]]:
        """The same for some of the clients."""
        carry, fixed, now = ([x[some] for x in xs] for xs in self.given[1:])
        return self.times[some], carry, fixed, now

    @property
    def native(self) -> Native:
        """The program, if it is a compiled one."""
        run = None if self.program is None else self.program.run
        assert isinstance(run, Native), "asked for without knowing"
        return run

    def joined(self, leaves: Any) -> Any:
        """A carry of these leaves."""
        return _joined(leaves, self.call.form)


def _by_python(ready: Ready) -> tuple[list[Tensor], int] | None:
    """What a program would give: batched by vmap, a convolution for many weight sets is slow."""
    found, passes, (_, times, carry, fixed, now, call) = list[list[Tensor]](), 0, ready
    try:
        for j, count in enumerate(times):
            held, same = [x[j] for x in carry], [x[j] for x in fixed]
            for s in range(count):
                held, passes = call(*held, *same, *(x[j, s] for x in now))
            found.append(held)
    except Untraceable:  # a carry that changes its form
        return None
    return [torch.stack(each) for each in zip(*found, strict=True)], passes


def _parted(t: Any) -> tuple[list[Tensor], Form]:
    leaves, structure = tree.flatten(t)
    rest = tuple(None if isinstance(x, Tensor) else x for x in leaves)
    return [x for x in leaves if isinstance(x, Tensor)], Form(structure, rest)


def _joined(tensors: Any, form: Form) -> Any:
    if len(tensors) == len(form.leaves):
        return tree.unflatten(tensors, form.structure)
    # None replaces a tensor, or is a leaf itself; the structure tells which by the count.
    rest = iter(tensors)
    return tree.unflatten([next(rest) if x is None else x for x in form.leaves], form.structure)


def _stacked(x: Tensor, n: int) -> Tensor:
    """With the axis of n clients that vmap hides, or that many times the same."""
    return mapped.raw(x) if mapped.inside(x) else x.expand(n, *x.shape)


def _in_order(x: Tensor) -> Tensor:
    """Every client's part in memory as a step that wrote into it would leave it."""
    return x if x[0].is_contiguous() else x.contiguous()


def _kind(x: Tensor) -> Hashable:
    """Of one client's part."""
    return x.shape[1:], x.stride()[1:], x.dtype


def _unlike(a: Tensor, b: Tensor) -> bool:
    return a.shape != b.shape or a.dtype != b.dtype
