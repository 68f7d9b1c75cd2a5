"""How long nothing has been heard from the API server, and when that is too long."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

LONGEST_SILENCE_S: Final = 300.0
"""A watch in which nothing comes is begun anew after 130 s. Twice that, and a little, is no chance."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """Seconds since the API server last said anything: at all, and by the resources that are watched."""

    api_s: float
    resources_s: Mapping[str, float]


class Heard(Protocol):
    """What knows when the API server last said anything of it; `Reflector` does."""

    @property
    def heard_s(self) -> float: ...


def measure_silence(watched: Mapping[str, Heard], now_s: float) -> dict[str, float]:
    """For how many seconds nothing has been heard of each."""
    return {name: now_s - one.heard_s for name, one in watched.items()}


def describe_silence(ages_s: Mapping[str, float], longest_s: float = LONGEST_SILENCE_S) -> str:
    """Which resources nothing has been heard of for too long, as a sentence; empty where there is none.

    `ages_s` are seconds since something was last heard of each.
    """
    silent = {name: age_s for name, age_s in ages_s.items() if age_s > longest_s}
    if not silent:
        return ""
    named = ", ".join(sorted(silent))
    return f"the API server has said nothing of {named} for {min(silent.values()):.0f} s"
