"""Clients that join late: the last ones, from some round on."""

from unalike.algorithms.draft import Draft
from unalike.errors import ConfigError
from unalike.parts.schedule import Late
from unalike.run.configuration.config import Config
from unalike.traits import Trait


def joining(config: Config, n: int) -> Late | None:
    """The clients that join late, if any do."""
    asked = config.participation
    if not asked.late:
        return None
    if asked.late >= n:
        raise ConfigError(
            f"participation.late is {asked.late} of {n} clients, so none would be there at the "
            "start; lower it."
        )
    if asked.joins > config.rounds:
        raise ConfigError(
            f"participation.joins is {asked.joins} but there are only {config.rounds} rounds; "
            "lower it or raise rounds."
        )
    return Late(asked.late, asked.joins - 1, asked.others)


def refuse_late(draft: Draft) -> None:
    """What cannot be where some clients join late."""
    if draft.late is None:
        return
    reasons = {
        "phases have their own queue": draft.phases,
        "a method chooses the clients of a round": draft.schedule is not None,
        "clients that are late may answer first": draft.participation.extra,
        "a pooled run has one client": draft.pooled,
        "privacy is counted for cohorts drawn at random": draft.guarantee,
        "topologies other than a star draw a cohort for every server": Trait.MANY_SERVERS
        in draft.topology.traits,
    }
    if why := next((why for why, true in reasons.items() if true), ""):
        raise ConfigError(f"participation.late cannot be used here: {why}; leave it out.")
