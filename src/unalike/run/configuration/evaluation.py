"""The section of a configuration that says what is tested, how and when."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from unalike.settings import Settings


class EvaluationSettings(Settings):
    """When to evaluate, and which validation metric selects a round."""

    every: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="rounds between evaluations; auto: evaluation takes about a fifth of the work, "
        "by counts, or a quarter of a second where that is more, but is made at least twice; the "
        "last round is always evaluated",
    )
    clients: int = Field(
        default=10_000,
        ge=1,
        description="most clients to test on, the same ones each time; drawn at random if there "
        "are more (all are tested if some join late)",
    )
    select: Literal["auto", "accuracy", "loss", "f1", "auroc", "rmse", "mae", "r2"] = Field(
        default="auto",
        description="validation metric (mean over clients) that selects; auto: accuracy, rmse of a "
        "regression, loss of an autoencoder",
    )
    ensemble: Literal["probabilities", "votes", "weights"] = Field(
        default="probabilities",
        description="how clients predict for new clients and the global test if only they hold "
        "whole models: mean class probabilities, majority vote, or one model with "
        "their mean weights",
    )
    target: float | None = Field(
        default=None,
        ge=0,
        description="accuracy (rmse, loss) to reach; the summary counts the "
        "rounds and bytes until then",
    )
    train: bool = Field(
        default=False, description="also test on every client's training rows, in a section train"
    )
    fidelity: bool = Field(
        default=False,
        description="also measure how realistic generated examples are, if the method generates "
        "some",
    )
    extractor: str = Field(
        default="",
        description="for fidelity: FILE.py:FUNCTION that turns examples into features, or "
        "inception:WEIGHTS for Inception-v3 with weights as safetensors; if empty, a "
        "small network trained on the clients' rows",
    )
    membership: bool = Field(
        default=False,
        description="also measure how well a model's losses separate training rows from test rows",
    )
    line: int = Field(
        default=0,
        ge=0,
        description="how many points from the shared to each client's own model to test as well, "
        "such as 11; adds the sections common (best on validation data) and oracle "
        "(each client's best on its test data), which equal local where clients have one model",
    )
    new_client_steps: list[Annotated[int, Field(ge=1, le=100_000)]] = Field(
        default_factory=list,
        description="numbers of local steps after which new clients are tested as well, such as "
        "[1, 5, 25]; they then keep training rows; adds the section adapted, after "
        "the largest number",
    )
    cross: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="how many clients' models, at most, to test on each other's test rows after "
        "the last round, if they differ; for simulations only",
    )
    calibration_batch: int = Field(
        default=0,
        ge=0,
        description="rows of which calibration errors are computed together; a client gets the "
        "mean over its batches, as in some published tables; 0: of all its rows",
    )
    landscape: int = Field(
        default=0,
        ge=0,
        le=51,
        description="points along each side of a square around the shared model at which to "
        "measure the loss after the last round, such as 15",
    )
    adversary: bool = Field(
        default=False,
        description="train an adversary on every client's finished representation to predict the "
        "data's protected attributes; adds the metric adversary, its AUROC on the "
        "client's test rows (50 % is a guess), and fooled, that of the adversary "
        "from the training",
    )
    reference: str = Field(
        default="",
        description="folder of a finished run with the same model, such as a pooled one: each "
        "evaluation records how far the weights are from its weights",
    )

    @model_validator(mode="after")
    def _a_line_has_two_ends(self) -> Self:
        if self.line == 1:
            raise ValueError("line = 1 is one end only; set it to 2 points or more, or 0 for none")
        if self.landscape == 1:
            raise ValueError("landscape = 1 is the model alone; set it to 3 or more, or 0 for none")
        if sorted(set(self.new_client_steps)) != self.new_client_steps:
            raise ValueError("new_client_steps must be a list of growing numbers")
        return self
