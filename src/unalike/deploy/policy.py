"""What a site agrees to, in its own file; the coordinator is told in words what it refuses."""

import hashlib
import tomllib
from pathlib import Path

from pydantic import Field

from unalike.deploy.messages import Message, MessageError
from unalike.errors import ConfigError
from unalike.files import write
from unalike.packed import memory
from unalike.recipe import Program
from unalike.run.configuration.explain import check
from unalike.run.configuration.sections import DeploySettings
from unalike.settings import Settings


class Policy(Settings):
    """The limits of a site; everything is allowed that is not limited."""

    survey: bool = Field(default=True, description="answer questions about the data's distribution")
    evaluate: bool = Field(
        default=True, description="test models on the site's rows and send the metrics"
    )
    max_rounds: int = Field(default=0, ge=0, description="most rounds to train in; 0: no limit")
    tell: list[str] = Field(
        default=[], description="text columns whose levels may be sent although there are many"
    )
    secure_aggregation: bool = Field(
        default=False,
        description="train only if the coordinator sees sums of several sites' updates",
    )
    min_noise: float = Field(
        default=0.0,
        ge=0,
        description="smallest noise multiplier of local differential privacy that is accepted",
    )

    def check(self, question: Message) -> None:
        """Raise one sentence if a question requests more than is allowed."""
        if question.kind == "survey" and not self.survey:
            raise MessageError("this site's policy allows no survey (survey = false).")
        if question.kind in ("evaluate", "ensemble") and not self.evaluate:
            raise MessageError("this site's policy allows no evaluation (evaluate = false).")

    def agree(self, program: Program, deploy: DeploySettings) -> None:
        """Raise one sentence if a recipe adds less noise, or tells more, than is wanted."""
        if self.min_noise and deploy.noise == "seed":
            raise MessageError(
                "this site's policy requires noise (min_noise), but the recipe draws it from its "
                "seed, which everybody knows (deploy.noise)."
            )
        if self.secure_aggregation and not deploy.secure_aggregation:
            raise MessageError(
                "this site's policy requires secure aggregation (secure_aggregation), and the "
                "recipe has none."
            )
        for stage in program:
            noise = max((getattr(c, "noise", 0.0) for c in stage.recipe.channel), default=0.0)
            if noise < self.min_noise:
                raise MessageError(
                    "this site's policy requires a noise multiplier of at least "
                    f"{self.min_noise:g} (min_noise), and the recipe has {noise:g}."
                )


class Allowance:
    """Rounds to train in, counted on disk by distinct questions: the same question counts once.

    Round numbers do not count, because a coordinator could ask for one round repeatedly, each time
    with another model.
    """

    def __init__(self, path: Path, most: int) -> None:
        """With ``most`` 0 nothing is counted."""
        self.path, self.most = path, most
        self.spent = path.read_text().splitlines() if most and path.exists() else []

    def spend(self, question: Message) -> None:
        """Raise one sentence if a question to train is one too many."""
        if not self.most:
            return
        digest = hashlib.sha256(str(question.note["round"]).encode())
        for name, x in sorted(question.tensors.items()):
            digest.update(name.encode())
            digest.update(memory(x))
        if digest.hexdigest() in self.spent:
            return
        if len(self.spent) >= self.most:
            raise MessageError(f"this site's policy allows {self.most} rounds (max_rounds).")
        self.spent.append(digest.hexdigest())
        write(self.path, "".join(f"{line}\n" for line in self.spent))


def read_policy(path: str) -> Policy:
    """The policy in a TOML file; an empty path allows everything."""
    if not path:
        return Policy()
    try:
        return check(Policy, tomllib.loads(Path(path).read_text(encoding="utf-8")), "policy")
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not valid TOML: {error}.") from None
