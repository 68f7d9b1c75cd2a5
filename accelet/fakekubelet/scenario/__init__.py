"""Scenarios: what happens to a kubelet and its pods, as a file.

fake    Plays scenarios on the fake kubelet.
format  What a scenario file may say: one action a step.
run     Runs a scenario against a kubelet, fake or real, and says what the plugin did wrong.
"""

from accelet.fakekubelet.scenario.fake import FakeTarget, Fate, fate_of
from accelet.fakekubelet.scenario.format import Scenario, Step, read_scenario, schema
from accelet.fakekubelet.scenario.run import (
    Outcome,
    Problem,
    Target,
    UnsupportedStepError,
    comparable,
    play,
    standing_problems,
)

__all__ = [
    "FakeTarget",
    "Fate",
    "Outcome",
    "Problem",
    "Scenario",
    "Step",
    "Target",
    "UnsupportedStepError",
    "comparable",
    "fate_of",
    "play",
    "read_scenario",
    "schema",
    "standing_problems",
]
