"""Whatever is done to a node, its resources are registered, and what the kubelet has of them is true."""

import os
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.integration.chaos.agents import Zygote
from tests.integration.chaos.machine import Chaos

IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
EXAMPLES, STEPS = (220, 50) if IS_SOAK else (28, 20)


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
    for counted in (Chaos.steps, Chaos.versions, Chaos.agents):
        counted.clear()
    chosen = int(
        os.environ.get("ACCELET_CHAOS_SEED", random.SystemRandom().randrange(2**32) if IS_SOAK else 1)
    )
    phases = [Phase.generate] if IS_SOAK else [Phase.generate, Phase.shrink]
    run_state_machine_as_test(
        seed(chosen)(Chaos),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,
            database=None,
            phases=phases,
            print_blob=False,
        ),
    )
    steps = Chaos.steps.total()
    with capsys.disabled():
        sys.stdout.write(f"\nchaos: seed {chosen}, {steps} steps clean: {dict(Chaos.steps.most_common())}\n")
        sys.stdout.write(f"chaos: kubelets {dict(sorted(Chaos.versions.items()))}\n")
        sys.stdout.write(f"chaos: nodes with the agent {dict(Chaos.agents)}\n")
    assert steps >= (10_000 if IS_SOAK else 500)
