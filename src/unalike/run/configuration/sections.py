"""The sections of a configuration that every run has, whatever its data, model and method."""

from typing import Literal, Self

from pydantic import Field, model_validator

from unalike.run.configuration.evaluation import EvaluationSettings
from unalike.settings import Settings, setting


class Split(Settings):
    """How each client's rows are split into training, validation and test rows."""

    validation: float = Field(default=0.1, ge=0, lt=1, description="share of each client's rows")
    test: float = Field(default=0.2, ge=0, lt=1, description="share of each client's rows")
    new_clients: int = Field(default=0, ge=0, description="whole clients held out of training")
    stratified: bool = Field(
        default=True,
        description="test and validation rows hold a client's classes in proportion; else any of "
        "its rows are drawn",
    )

    @model_validator(mode="after")
    def _something_trains(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation = {self.validation:g} and test = {self.test:g} leave nothing to "
                "train on; together they must stay below 1"
            )
        return self


class Local(Settings):
    """What a client does in a round."""

    epochs: float = Field(
        default=1.0, gt=0, le=10_000, description="passes over its data; may be fractional"
    )
    batch_size: int = Field(default=32, ge=1, description="examples in a step")
    optimizer: Literal["sgd", "adam"] = Field(default="sgd", description="fresh in every round")
    lr: float = Field(default=0.05, gt=0, description="learning rate")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="of SGD")
    nesterov: bool = Field(default=False, description="Nesterov's form of momentum")
    weight_decay: float = Field(default=0.0, ge=0, description="added to the gradient")
    class_weights: Literal["none", "balanced"] = Field(
        default="none",
        description="balanced: in training a row counts inversely to the frequency of its class "
        "among all training rows; the server learns how many rows each class has",
    )
    decay: Literal["constant", "exponential", "cosine"] = Field(
        default="constant", description="how the learning rate falls over rounds"
    )
    decay_rate: float = setting(
        0.99, "factor, if exponential", gt=0, le=1, only={"decay": "exponential"}
    )
    decay_every: int = setting(
        1, "rounds between factors, if exponential", ge=1, only={"decay": "exponential"}
    )

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> Self:
        if self.optimizer == "adam" and (self.momentum or self.nesterov):
            raise ValueError('momentum and nesterov belong to optimizer = "sgd"; leave them out')
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov = true needs momentum above 0")
        return self


class ParticipationSettings(Settings):
    """Who takes part in a round: a fraction of the clients, or a number."""

    fraction: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="share of all clients, but at least one client; 0: just one",
    )
    number: int | None = Field(default=None, ge=1, description="how many, instead of a fraction")
    late: int = Field(
        default=0,
        ge=0,
        description="how many of the last clients join late and then take part in every round; "
        "adds the sections settled and late",
    )
    joins: int = Field(default=2, ge=2, description="the round that late clients join in")
    others: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the other clients that take part from then on; 0: none; unset: as "
        "before",
    )
    extra: float = Field(
        default=0.0,
        ge=0,
        description="share of clients invited in addition; the first answers count, by the "
        "simulated clock or, deployed, as they arrive",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.number is not None and self.fraction != 1:
            raise ValueError("set either fraction or number, not both")
        if not self.late and (self.joins != 2 or self.others is not None):
            raise ValueError("joins and others belong to late clients; set late, or leave them out")
        return self


class ClockSettings(Settings):
    """A simulated clock: how fast devices and networks are; nothing is measured."""

    kind: Literal["none", "simulated"] = Field(
        default="none", description="simulated: rounds take time, and clients may be late"
    )
    speed: float = setting(
        1000.0, "examples per second on the median device", gt=0, only={"kind": "simulated"}
    )
    speed_spread: float = setting(
        0.5,
        "spread of devices: deviation of the logarithm, or half the width",
        ge=0,
        only={"kind": "simulated"},
    )
    down: float = setting(
        1e6, "bytes per second to the median client", gt=0, only={"kind": "simulated"}
    )
    up: float = setting(
        2.5e5, "bytes per second from the median client", gt=0, only={"kind": "simulated"}
    )
    network_spread: float = setting(
        0.5, "spread of networks, both ways", ge=0, only={"kind": "simulated"}
    )
    distribution: Literal["lognormal", "uniform", "constant"] = setting(
        "lognormal",
        "distribution of speeds and bandwidths over clients",
        only={"kind": "simulated"},
    )
    latency: float = setting(
        0.05, "seconds that a message takes at least", ge=0, only={"kind": "simulated"}
    )
    jitter: float = setting(
        0.0,
        "deviation of the logarithm of a client's time from round to round",
        ge=0,
        only={"kind": "simulated"},
    )
    deadline: float | None = setting(
        None,
        "seconds that a server waits for clients, or nodes for neighbours; the late are left out",
        gt=0,
        only={"kind": "simulated"},
    )
    backbone: float = setting(
        1.25e7,
        "bytes per second between an edge server and the other servers, in either direction",
        gt=0,
        only={"kind": "simulated"},
    )

    @model_validator(mode="after")
    def _positive(self) -> Self:
        widest = max(self.speed_spread, self.network_spread)
        if self.distribution == "uniform" and widest >= 1:
            raise ValueError("a uniform spread of 1 or more would make some clients stand still")
        return self


class FaultSettings(Settings):
    """Clients that fail at random, and what the server does about it."""

    drop: float = Field(
        default=0.0, ge=0, le=1, description="probability that a client never answers"
    )
    straggle: float = Field(
        default=0.0, ge=0, le=1, description="probability that a client does only part of the work"
    )
    least_work: float = Field(
        default=0.1, gt=0, le=1, description="smallest share of the work that a straggler does"
    )
    garbage: float = Field(default=0.0, ge=0, le=1, description="probability of a nonsense answer")
    kind: Literal["nan", "huge", "noise", "zero"] = Field(
        default="nan", description="what nonsense looks like"
    )
    explode: float = Field(
        default=1000.0, gt=1, description="refuse updates this many times longer than the median"
    )
    min_replies: int = Field(default=1, ge=1, description="usable answers a round needs")
    too_few: Literal["skip", "stop"] = Field(
        default="skip", description="a round with fewer changes nothing, or ends the run"
    )

    @model_validator(mode="after")
    def _stragglers_do_less(self) -> Self:
        if self.straggle and self.least_work == 1:
            raise ValueError(
                "least_work = 1 lets stragglers do all of their work; lower it, or leave straggle "
                "out"
            )
        return self


class EngineSettings(Settings):
    """How clients are computed; never what they compute."""

    kind: Literal["auto", "sequential", "vectorized"] = Field(
        default="auto",
        description="auto: vectorized, or sequential if the model does not allow it or, in long "
        "runs on a CPU, if a short measurement says that it is faster",
    )
    measure: bool = Field(
        default=True, description="let auto measure for a second or two; otherwise a rule decides"
    )
    because: str = Field(
        default="",
        description="the reason for kind, for the record; set by a run that has measured",
    )
    device: str = Field(default="cpu", description="cpu, cuda or cuda:N")
    workers: int = Field(
        default=0, ge=0, le=1024, description="threads if sequential; 0: one per core"
    )
    tf32: bool = Field(
        default=False,
        description="let a GPU round products to TF32: faster, slightly different numbers",
    )
    bf16: bool = Field(
        default=False,
        description="let a GPU train with 16-bit products: faster still, about two digits of "
        "precision",
    )
    graphs: bool = Field(
        default=True,
        description="on a GPU, vectorized: record local steps once and replay them; same numbers",
    )
    compiled: bool = Field(
        default=True,
        description="compile the local steps of long runs, which changes the last digits: on a "
        "CPU, vectorized, those of dense networks by the machine's C++ compiler; on a "
        "GPU, vectorized, those that pass over the weights often, by PyTorch's",
    )
    traced: bool = Field(
        default=True,
        description="on a CPU: trace local steps once and run them without Python",
    )
    chunk: int = Field(
        default=0, ge=0, description="most clients in one vectorized call; 0: by memory and device"
    )
    kernels: bool = Field(
        default=True,
        description="on a GPU, vectorized: convolutions by kernels for many weight sets, 1.3 to "
        "4 times faster; the last digits differ from PyTorch's, and compiling takes "
        "a few seconds once",
    )
    states: Literal["memory", "disk"] = Field(
        default="memory",
        description="where clients' states are kept; disk: for populations that do not fit into "
        "memory",
    )


class RunSettings(Settings):
    """Where the run is stored and how often it is saved."""

    folder: str = Field(default="", description="if empty, runs/ plus a name from the settings")
    checkpoint_every: int = Field(default=10, ge=1, description="rounds between checkpoints")
    keep: Literal["auto", "all", "shared"] = Field(
        default="auto",
        description="models to keep: all, only the shared one, or (auto) all if they fit into 1 "
        "GiB",
    )
    buffers: Literal["global", "local", "drop"] = Field(
        default="global",
        description="BatchNorm statistics: averaged, kept on the client, or never tracked",
    )
    init: Literal["drawn", "given"] = Field(
        default="drawn", description="weights drawn from the seed, or the module's own"
    )


class DeploySettings(Settings):
    """How updates travel when the recipe is deployed; simulations ignore it."""

    secure_aggregation: bool = Field(
        default=False,
        description="the coordinator learns one sum of the sites' updates and no single one",
    )
    noise: Literal["secret", "seed"] = Field(
        default="secret",
        description="where noise for privacy comes from: secrets of whoever adds it or, as in a "
        "simulation, the seed, which everybody knows",
    )


class TrackSettings(Settings):
    """Trackers that get a copy of the records, in addition to the run folder."""

    to: list[Literal["tensorboard", "mlflow", "wandb"]] = Field(
        default_factory=list, description="trackers; each is an extra to install"
    )
    project: str = Field(
        default="unalike", min_length=1, description="MLflow's experiment, W&B's project"
    )


SECTIONS: dict[str, type[Settings]] = {
    "split": Split,
    "local": Local,
    "participation": ParticipationSettings,
    "clock": ClockSettings,
    "faults": FaultSettings,
    "evaluation": EvaluationSettings,
    "engine": EngineSettings,
    "run": RunSettings,
    "deploy": DeploySettings,
    "track": TrackSettings,
}
