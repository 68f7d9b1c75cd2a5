"""Whatever is done to a node, its resources are registered, and what the kubelet has of them is true."""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from accelet.fakekubelet.behaviour import VERSIONS
from tests.integration.chaos.agents import Zygote
from tests.integration.chaos.machine import Chaos

IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
EXAMPLES, STEPS = (19, 50) if IS_SOAK else (4, 20)
"""For each version of the kubelet, since hypothesis would draw some of them often and some never.

Its first example is always the simplest, the same step again and again.
"""


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


@pytest.mark.thorough
@pytest.mark.hypothesis
@pytest.mark.timeout(7200 if IS_SOAK else 600)  # to shrink a failure takes its time
def test_node_under_chaos_is_always_served(zygote: Zygote, capsys: pytest.CaptureFixture[str]) -> None:
    Chaos.zygote = zygote
    Chaos.steps.clear()
    Chaos.agents.clear()
    chosen = int(
        os.environ.get("ACCELET_CHAOS_SEED", random.SystemRandom().randrange(2**32) if IS_SOAK else 1)
    )
    began_s = time.monotonic()
    for number, version in enumerate(VERSIONS):
        run(type(f"Chaos{version}", (Chaos,), {"version": version}), 100 * chosen + number)
    steps, took_s = Chaos.steps.total(), time.monotonic() - began_s
    with capsys.disabled():
        sys.stdout.write(f"\nchaos: seed {chosen}, {steps} steps clean in {took_s:.0f} s\n")
        sys.stdout.write(f"chaos: {dict(Chaos.steps.most_common())}\n")
        sys.stdout.write(f"chaos: {len(VERSIONS)} kubelets, nodes with the agent {dict(Chaos.agents)}\n")
    assert steps >= (10_000 if IS_SOAK else 500)


def run(machine: type[Chaos], chosen: int) -> None:
    """All examples of one version; what it fails with names the seed."""
    try:
        run_state_machine_as_test(
            seed(chosen)(machine),
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                derandomize=False,
                database=None,
                phases=[Phase.generate] if IS_SOAK else [Phase.generate, Phase.shrink],
                print_blob=False,
            ),
        )
    except BaseException as error:
        error.add_note(f"chaos: version {machine.version}, its seed {chosen}")
        raise
