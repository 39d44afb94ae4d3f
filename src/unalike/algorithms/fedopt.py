"""FedAdam, FedYogi, FedAdagrad (Reddi et al. 2021, Alg. 2): adaptive steps on the server.

The three differ in the second moment only; the equations are in ``parts/server_optim.py``.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.server_optim import ServerAdagrad, ServerAdam, ServerYogi


class _Adaptive(Method):
    slot: ClassVar[Slot] = "server"
    paper: ClassVar[str] = "Reddi et al. 2021, arXiv 2003.00295"

    lr: float = Field(default=0.1, gt=0, description="server learning rate")
    tau: float = Field(default=1e-3, gt=0, description="degree of adaptivity; v starts at tau^2")


class FedAdam(_Adaptive):
    """Adam on the server: steps scaled by an exponential average of squared updates."""

    b1: float = Field(default=0.9, ge=0, lt=1, description="decay of the first moment")
    b2: float = Field(default=0.99, ge=0, lt=1, description="decay of the second moment")

    def change(self, draft: Draft) -> Draft:
        """Fill the server optimizer."""
        return replace(draft, server_opt=ServerAdam(self.lr, self.b1, self.b2, self.tau))


class FedYogi(_Adaptive):
    """Yogi on the server: the second moment changes additively, so it forgets more slowly."""

    b1: float = Field(default=0.9, ge=0, lt=1, description="decay of the first moment")
    b2: float = Field(default=0.99, ge=0, lt=1, description="speed of the second moment")

    def change(self, draft: Draft) -> Draft:
        """Fill the server optimizer."""
        return replace(draft, server_opt=ServerYogi(self.lr, self.b1, self.b2, self.tau))


class FedAdagrad(_Adaptive):
    """Adagrad on the server: the second moment only grows, so steps only shrink."""

    b1: float = Field(default=0.0, ge=0, lt=1, description="decay of the first moment")

    def change(self, draft: Draft) -> Draft:
        """Fill the server optimizer."""
        return replace(draft, server_opt=ServerAdagrad(self.lr, self.b1, tau=self.tau))
