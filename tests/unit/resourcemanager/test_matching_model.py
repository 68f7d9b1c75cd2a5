"""Matching against a simulated kubelet, which knows the truth about each of its calls."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import ObjectKey
from accelet.kubelet.podresources import PodRecord
from resourcemanager.matching.inquiry import Match, NoProof, Podresources
from tests.unit.resourcemanager.agent_model import Agent
from tests.unit.resourcemanager.kubelet_model import Call, Disturbances, Node
from tests.unit.resourcemanager.original_rule import guess_owner

# In full, each property takes minutes on a small machine.
pytestmark = pytest.mark.timeout(1800)

SEEDS = st.integers(0, 2**32)
LAGS = st.sampled_from([0, 5, 20, 100, 500, 2000])
ANYTHING = st.builds(Disturbances, LAGS, *[st.booleans()] * 5)
RESTARTS = st.builds(Disturbances, LAGS, kubelet_restarts=st.booleans(), agent_restarts=st.booleans())


def run(agent: Agent) -> Agent:
    agent.node.run(agent.answer)
    return agent


@given(SEEDS, st.sampled_from(Podresources), ANYTHING, st.booleans())
def test_no_container_is_ever_taken_for_another(
    seed: int, mode: Podresources, disturbances: Disturbances, gives_unproven: bool
) -> None:
    agent = run(Agent(Node(seed, mode, disturbances), gives_unproven))
    assert agent.wrong == []
    assert agent.corrections == 0


@given(SEEDS, RESTARTS, st.booleans())
def test_from_134_on_every_container_is_matched(
    seed: int, disturbances: Disturbances, gives_unproven: bool
) -> None:
    agent = run(Agent(Node(seed, Podresources.GET_ACTIVE, disturbances), gives_unproven))
    assert set(agent.counts) <= {"right"}
    assert agent.questions["AskAllShown"] == 0


@given(SEEDS, st.booleans(), st.booleans())
def test_current_watch_spares_the_api_server(seed: int, kubelet_restarts: bool, agent_restarts: bool) -> None:
    disturbances = Disturbances(kubelet_restarts=kubelet_restarts, agent_restarts=agent_restarts)
    agent = run(Agent(Node(seed, Podresources.GET_ACTIVE, disturbances)))
    assert agent.questions["ReadPods"] == agent.questions["ReadPod"] == 0


@given(SEEDS)
def test_pod_forgotten_by_the_kubelet_costs_refusals_and_no_wrong_bind(seed: int) -> None:
    agent = run(Agent(Node(seed, Podresources.GET_ACTIVE, Disturbances(forgotten_pods=True))))
    assert agent.wrong == []


# The model can tell right from wrong: what is known to be a guess fails on it.


def count(make: Callable[[int], Agent]) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in range(60):
        total += run(make(seed)).counts
    return total


class Comparing(Agent):
    """Asks the original's rule at each call as well, with the freshest pods there are."""

    def match(self, call: Call) -> Match | NoProof:
        guess = guess_owner(tuple(self.node.api.values()), self.node.list_all())
        self.counts["original right" if guess == call.truth else "original wrong"] += 1
        return super().match(call)


class Trusting(Agent):
    """Takes a watch that lags for a current one."""

    def match(self, call: Call) -> Match | NoProof:
        lagging = self.node.with_
        self.node.with_ = replace(lagging, lag_ms=0)
        try:
            return super().match(call)
        finally:
            self.node.with_ = lagging


class Unfiltered(Node):
    """Shows turned-away pods although it is taken for a kubelet that does not."""

    def get(self, name: ObjectKey) -> PodRecord | None:
        return next((self.record(pod) for pod in self.known.values() if pod.key == name), None)


def test_oldest_time_stamp_swaps_containers() -> None:
    total = count(lambda seed: Comparing(Node(seed, Podresources.GET_ACTIVE, Disturbances())))
    assert total["original wrong"] > 0.1 * total["right"]
    assert total["original right"] > 0.1 * total["right"]


def test_trust_in_a_lagging_watch_swaps_pods_of_one_name() -> None:
    lag = Disturbances(lag_ms=100)
    assert count(lambda seed: Trusting(Node(seed, Podresources.GET_ACTIVE, lag)))["wrong"] > 0


def test_first_visible_pod_is_no_proof_where_turned_away_pods_are_shown() -> None:
    lag = Disturbances(lag_ms=20)
    assert count(lambda seed: Agent(Unfiltered(seed, Podresources.GET_ACTIVE, lag)))["wrong"] > 0


def test_before_134_nearly_every_container_is_matched_and_the_rest_refused() -> None:
    total = count(lambda seed: Agent(Node(seed, Podresources.LIST_ALL, Disturbances(lag_ms=20))))
    assert total["wrong"] == 0
    assert total["right"] > 0.95 * total.total()
