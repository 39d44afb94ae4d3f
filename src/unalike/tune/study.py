"""A search by Optuna: tree-structured Parzen estimators, and a median rule that ends bad trials.

Bergstra et al. 2011 (Algorithms for hyper-parameter optimization); pruning as in Golovin et al.
2017 (Google Vizier). A trial's random numbers belong to the number of trials finished before it, so
that a stopped search continues as if it had not been.

study.jsonl   Optuna's journal: what a stopped search continues from
trials.jsonl  one line a trial: settings, state, score, scores of its rounds
tune.json     the file as it was read
best.toml     the file with the best settings, ready to run
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from unalike.errors import ConfigError, RunError, UnalikeError
from unalike.files import new_folder
from unalike.run.configuration.toml import as_toml
from unalike.run.folder.records import alone, dumps, plain, read_json, write
from unalike.tune.space import Choices, Tuning
from unalike.tune.trial import Trials

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

STARTUP = 4  # trials that are never pruned, so that there is a median

Tell = Callable[[str, bool], None]  # what is going on, and whether it ends a trial


class Stopped(KeyboardInterrupt):
    """The user asked to stop; the same command continues the search."""

    def __init__(self, done: int, total: int) -> None:
        """With so many trials done."""
        super().__init__(
            f"stopped, {done} of {total} trials done; the same command continues the search."
        )


def optuna() -> ModuleType:
    """The library, quiet; it is an extra."""
    try:
        import optuna as library
    except ImportError:
        raise ConfigError(
            "tuning needs Optuna; install it with: pip install 'unalike[tune]'."
        ) from None
    library.logging.set_verbosity(library.logging.ERROR)
    return library


def search(
    tuning: Tuning, folder: Path, tell: Tell = lambda text, ends: None
) -> list[dict[str, Any]]:
    """Run what is left of the trials in a folder; every trial as a record."""
    library = optuna()
    _make(folder)
    with alone(folder):
        _settle(tuning, folder)
        return _search(library, tuning, folder, tell)


def best(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The record of the best trial; of equals the first."""
    return next(r for r in records if r["best"])


def _search(library: ModuleType, tuning: Tuning, folder: Path, tell: Tell) -> list[dict[str, Any]]:
    trials = Trials(tuning)
    study = _study(library, tuning, folder, trials.higher)
    try:
        if len(_finished(study)) < tuning.settings.trials:
            trials.load()
        while (done := len(_finished(study))) < tuning.settings.trials:
            _attempt(library, study, trials, done, tell)
            _write(study, tuning, folder)
    except KeyboardInterrupt:
        raise Stopped(len(_finished(study)), tuning.settings.trials) from None
    records = _write(study, tuning, folder)
    if not any(r["state"] == "complete" for r in records):
        raise RunError(f"no trial could be finished; the first: {records[0]['error']}")
    return records


def _make(folder: Path) -> None:
    """The folder, which may be new or hold a search, but nothing else."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"'{folder}' is a file; name another with --folder.")
    try:
        new_folder(folder)
        visible = any(not path.name.startswith(".") for path in folder.iterdir())
    except OSError as error:
        raise RunError(f"'{folder}' cannot be made: {error.strerror}; choose another.") from None
    if visible and not (folder / "tune.json").is_file():
        raise RunError(f"'{folder}' is not empty; name another with --folder.")


def _settle(tuning: Tuning, folder: Path) -> None:
    """Write down what is searched, or see that it is what the folder was made for."""
    asked = plain(_question(tuning))
    if not (folder / "tune.json").is_file():
        write(folder / "tune.json", dumps(asked, indent=2))
    elif read_json(folder / "tune.json") != asked:
        raise RunError(
            f"'{folder}' holds a search of other settings; name another with --folder. (The "
            "number of trials may be changed.)"
        )


def _question(tuning: Tuning) -> dict[str, Any]:
    settings = tuning.settings.model_dump(exclude={"trials"})
    return {"config": tuning.config.resolved(), "tune": settings}


def _study(library: ModuleType, tuning: Tuning, folder: Path, higher: bool) -> "Study":
    for stale in folder.glob("study.jsonl.lock*"):  # of a killed process: this one is alone here
        stale.unlink()
    _mend(folder / "study.jsonl")
    backend = library.storages.journal.JournalFileBackend(str(folder / "study.jsonl"))
    startup = library.pruners.MedianPruner(n_startup_trials=STARTUP)
    try:
        study: Study = library.create_study(
            storage=library.storages.JournalStorage(backend),
            study_name="tune",
            direction="maximize" if higher else "minimize",
            pruner=startup if tuning.settings.pruning else library.pruners.NopPruner(),
            load_if_exists=True,
        )
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise RunError(
            f"'{folder / 'study.jsonl'}' is damaged ({type(error).__name__}: {why:.80}); restore "
            "it from a copy, or name another folder with --folder."
        ) from None
    for trial in study.trials:
        if trial.state == library.trial.TrialState.RUNNING:  # left behind by a killed process
            study.tell(trial.number, state=library.trial.TrialState.FAIL)
    own = tuning.own()
    if own is not None and not any(_holds(trial, own) for trial in study.trials):
        study.enqueue_trial(own)
    return study


def _mend(journal: Path) -> None:
    """Leave out a last line that was never written to its end, or the next would continue it."""
    if journal.is_file():
        raw = journal.read_bytes()
        if not raw.endswith(b"\n"):
            write(journal, raw[: raw.rfind(b"\n") + 1])


def _holds(trial: "FrozenTrial", values: dict[str, Any]) -> bool:
    """Whether a trial that counts, or one that waits to be run, has these settings."""
    waiting = trial.system_attrs.get("fixed_params") if trial.state.name == "WAITING" else None
    return values == waiting or (values == trial.params and _state(trial) != "interrupted")


def _attempt(library: ModuleType, study: "Study", trials: Trials, done: int, tell: Tell) -> None:
    """One trial, from its settings to its score; what cannot be trained is written down."""
    tuning, state = trials.tuning, library.trial.TrialState
    study.sampler = library.samplers.TPESampler(seed=(tuning.config.seed + done) % 2**32)
    trial = study.ask()
    values = {key: _suggest(trial, key, one) for key, one in tuning.space.items()}
    head = f"trial {done + 1} of {tuning.settings.trials}: " + ", ".join(
        f"{k} = {short(v)}" for k, v in values.items()
    )
    scores: list[float] = []
    try:
        for number, score in trials.scores(values):
            scores.append(score)
            tell(f"{head}; round {number}, validation {trials.metric} {score:.4f}", False)
            trial.report(score, number)
            if trial.should_prune():
                study.tell(trial, state=state.PRUNED)
                tell(f"{head}; pruned after round {number}", True)
                return
    except UnalikeError as error:
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=state.FAIL)
        tell(f"{head}; {error}", True)
        return
    except KeyboardInterrupt:
        study.tell(trial, state=state.FAIL)
        raise
    study.tell(trial, trials.best(scores))
    tell(f"{head}; validation {trials.metric} {trials.best(scores):.4f}", True)


def _suggest(trial: "Trial", key: str, one: Any) -> Any:
    if isinstance(one, Choices):
        return trial.suggest_categorical(key, list(one.values))
    if one.whole:
        return trial.suggest_int(key, one.low, one.high, log=one.log)
    return trial.suggest_float(key, one.low, one.high, log=one.log)


def _finished(study: "Study") -> list["FrozenTrial"]:
    """Trials that count: complete, pruned, or refused for a reason; not interrupted ones."""
    return [t for t in study.trials if t.state.is_finished() and _state(t) != "interrupted"]


def _state(trial: "FrozenTrial") -> str:
    if trial.state.name == "FAIL":
        return "failed" if "error" in trial.user_attrs else "interrupted"
    return trial.state.name.lower()


def _write(study: "Study", tuning: Tuning, folder: Path) -> list[dict[str, Any]]:
    """Trials and best settings as they stand."""
    complete = [t for t in study.trials if _state(t) == "complete"]
    leader = study.best_trial.number if complete else None
    records = [
        {
            "trial": i,
            "state": _state(t),
            "score": t.value if _state(t) == "complete" else None,
            "settings": t.params,
            "scores": {str(k): v for k, v in t.intermediate_values.items()},
            "error": t.user_attrs.get("error", ""),
            "best": t.number == leader,
        }
        for i, t in enumerate(_finished(study), 1)
    ]
    write(folder / "trials.jsonl", "".join(dumps(r) + "\n" for r in records))
    if leader is not None:
        write(folder / "best.toml", as_toml(tuning.filled(study.best_trial.params)))
    return records


def short(value: Any) -> str:
    """A setting in the terminal; files hold all digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
