"""Matching against a simulated kubelet, which knows the truth about each of its calls."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, kubelet_uid
from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.podresources import PodRecord
from resourcemanager.holdings.ledger import Ledger
from resourcemanager.holdings.reconcile import View
from resourcemanager.matching.inquiry import (
    CallFacts,
    Doubt,
    FollowEnd,
    FollowWatch,
    Match,
    NoProof,
    Podresources,
)
from tests.unit.resourcemanager.agent_model import Agent
from tests.unit.resourcemanager.kubelet_model import Call, Disturbances, Node, R, Watch
from tests.unit.resourcemanager.original_rule import guess_owner

# In full, each property takes minutes on a small machine.
pytestmark = pytest.mark.timeout(1800)

SEEDS = st.integers(0, 2**32)
LAGS = st.sampled_from([0, 5, 20, 100, 500, 2000])
ANYTHING = st.builds(
    Disturbances, LAGS, *[st.booleans()] * 5, forced_deletions=st.just(False), forged_mirrors=st.booleans()
)
DELETIONS = st.builds(
    Disturbances, LAGS, *[st.booleans()] * 5, forced_deletions=st.just(True), forged_mirrors=st.booleans()
)
REFUSES = st.sampled_from([0.0, 0.1])
RESTARTS = st.builds(Disturbances, LAGS, kubelet_restarts=st.booleans(), agent_restarts=st.booleans())
FAR_BEHIND_MS = 2500
"""A watch that is not: longer than the agent waits for it."""


def run(agent: Agent) -> Agent:
    agent.node.run(agent.answer)
    return agent


@given(SEEDS, st.sampled_from(Podresources), ANYTHING, st.booleans(), REFUSES)
def test_no_container_is_ever_taken_for_another(
    seed: int, mode: Podresources, disturbances: Disturbances, gives_unproven: bool, refuses: float
) -> None:
    agent = run(Agent(Node(seed, mode, disturbances), gives_unproven, refuses))
    assert agent.wrong == []
    assert agent.phantoms == []
    assert agent.corrections == 0


@given(SEEDS, DELETIONS, st.booleans(), REFUSES)
def test_none_is_taken_for_another_where_pods_are_deleted_by_force(
    seed: int, disturbances: Disturbances, gives_unproven: bool, refuses: float
) -> None:
    agent = run(Agent(Node(seed, Podresources.GET_ACTIVE, disturbances), gives_unproven, refuses))
    assert agent.wrong == []
    assert agent.phantoms == []
    assert agent.corrections == 0


class Telling(Agent):
    """Notes how far its watch had come when it took somebody for a rival."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rivals: list[tuple[str, int]] = []

    def count(self, call: Call, step: Match | NoProof) -> None:
        super().count(call, step)
        if isinstance(step, NoProof) and step.doubt is Doubt.RIVAL:
            self.rivals.append((step.reason, self.node.agent_watch.seen))

    def count_rivals_that_end_unseen(self) -> int:
        """How often the rival was a pod that had been turned away, of which the watch had not shown that."""
        ends = [
            (f"Pod {pod.namespace}/{pod.name}, which is gone or ending,", number)
            for number, (_, _, pod) in enumerate(self.node.log)
            if pod is not None and pod.phase == "Failed"
        ]
        return sum(
            any(reason.startswith(words) and number >= seen for words, number in ends)
            for reason, seen in self.rivals
        )


@given(SEEDS, RESTARTS, st.booleans())
def test_from_134_on_every_container_is_matched(
    seed: int, disturbances: Disturbances, gives_unproven: bool
) -> None:
    agent = Telling(Node(seed, Podresources.GET_ACTIVE, disturbances), gives_unproven)
    run(agent)
    # A pod whose admission began before the agent did may have been admitted without devices before.
    assert set(agent.counts) <= {"right", "unproven", "unproven beside a registration"}
    doubts = [one for one in agent.doubts if not is_behind(one, disturbances)]
    # Until the watch shows its end, whoever was refused, by an agent or for want of one, may start still.
    excused = agent.count_rivals_that_end_unseen()
    if beside := agent.counts["unproven beside a registration"]:
        excused = len(agent.rivals)
    assert len(doubts) - excused <= 2 * disturbances.agent_restarts + beside
    assert agent.questions["AskAllShown"] == 0


@given(SEEDS, st.booleans(), st.booleans())
def test_current_watch_spares_the_api_server(seed: int, kubelet_restarts: bool, agent_restarts: bool) -> None:
    disturbances = Disturbances(kubelet_restarts=kubelet_restarts, agent_restarts=agent_restarts)
    agent = run(Agent(Node(seed, Podresources.GET_ACTIVE, disturbances)))
    if set(agent.counts) <= {"right"}:
        assert agent.questions["ReadPods"] == 0
        # A kubelet that starts anew hides pods for a while, and a new agent finds some that got none before
        # it began: whether those are rivals that are not shown, the API server knows.
        may_be_hidden = kubelet_restarts or agent_restarts
        assert agent.questions["ReadPod"] <= (agent.counts["right"] if may_be_hidden else 0)


@given(SEEDS)
def test_pod_forgotten_by_the_kubelet_costs_refusals_and_no_wrong_bind(seed: int) -> None:
    agent = run(Agent(Node(seed, Podresources.GET_ACTIVE, Disturbances(forgotten_pods=True))))
    assert agent.wrong == []


class Waiting(Agent):
    """Notes by how many ms it waited longer than the watch was behind what it waited for."""

    late_ms = 0

    def follow(self, question: FollowWatch | FollowEnd, evidence: CallFacts) -> CallFacts:
        node = self.node
        uid = question.pod.uid if isinstance(question, FollowWatch) else question.uid
        begun_ms = node.now_ms
        after = super().follow(question, evidence)
        written_ms = max(at for at, of, _ in node.log if of == uid)
        self.late_ms = max(self.late_ms, node.now_ms - max(begun_ms, written_ms + node.with_.lag_ms))
        return after


@given(SEEDS, LAGS)
def test_call_waits_no_longer_than_the_watch_is_behind(seed: int, lag_ms: int) -> None:
    agent = Waiting(Node(seed, Podresources.GET_ACTIVE, Disturbances(lag_ms, forced_deletions=True)))
    run(agent)
    assert agent.late_ms <= 20  # it looks so often


def is_behind(doubt: NoProof, disturbances: Disturbances) -> bool:
    return doubt.doubt is Doubt.UNVERIFIED and disturbances.lag_ms > FAR_BEHIND_MS


# The model can tell right from wrong: what is known to be a guess fails on it.


def count(make: Callable[[int], Agent], nodes: int = 60) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in range(nodes):
        total += run(make(seed)).counts
    return total


def shows(outcome: str, make: Callable[[int], Agent], nodes: int = 60) -> bool:
    """Whether there is such an outcome on one of the nodes; those after the first are not run."""
    return any(run(make(seed)).counts[outcome] for seed in range(nodes))


class Comparing(Agent):
    """Asks the original's rule at each call as well, with the freshest pods there are."""

    def match(self, call: Call) -> Match | NoProof:
        guess = guess_owner(
            tuple(self.node.api.values()), {(pod.namespace, pod.name): pod for pod in self.node.list_all()}
        )
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
    assert shows("wrong", lambda seed: Trusting(Node(220 + seed, GET, lag)), 40)


def test_first_visible_pod_is_no_proof_where_turned_away_pods_are_shown() -> None:
    lag = Disturbances(lag_ms=20)
    assert shows("wrong", lambda seed: Agent(Unfiltered(seed, Podresources.GET_ACTIVE, lag)))


def test_before_134_nearly_every_container_is_matched_and_the_rest_refused() -> None:
    total = count(lambda seed: Agent(Node(seed, Podresources.LIST_ALL, Disturbances(lag_ms=20))))
    assert total["wrong"] == 0
    assert total["right"] > 0.95 * total.total()


# Each of these takes back one thing that keeps pods apart; the model notices.


class Unscreened(Agent):
    """Takes nobody for admitted before the kubelet knew the resource."""

    def register(self) -> None:
        self.remember()


class Recalling(Agent):
    """Takes what another life of the kubelet recorded for what this one has taken over."""

    def screened_by(self) -> Ledger:
        uids = {key.pod_uid for key, one in self.ledger.holdings.items() if one.is_recorded}
        return replace(self.ledger, checkpointed_pods={uid: frozenset() for uid in uids})


class Trustful(Node):
    """Lets the agent forget what was deleted."""

    def deleted(self) -> tuple[Pod, ...]:
        return ()


class Hasty(Node):
    """Does not wait until the watch has shown what was read."""

    def unwatched(self) -> frozenset[PodUid]:
        return frozenset()

    def follow(self, pod: Pod, within_ms: int) -> bool:
        return True


class Oblivious(Node):
    """Has an agent begin with what there is, and not be told what was deleted shortly before."""

    def watch_anew(self) -> None:
        end = len(self.log)
        self.agent_watch = Watch(self.with_.lag_ms, end, dict(self.api), shown=dict(self.api), listed=end)


class Unaware(Node):
    """Takes what an agent has watched for all that was deleted."""

    def knows_former(self) -> bool:
        return True


class Unafraid(Node):
    """Takes a pod that podresources does not show any more for one of which nothing starts."""

    def deleted(self) -> tuple[Pod, ...]:
        return tuple(replace(pod, phase="Pending", statuses={}) for pod in super().deleted())


class Relieved(Node):
    """Takes a pod that was turned away for one that the kubelet shows no more."""

    def heard_of(self) -> frozenset[PodUid]:
        return super().heard_of() | {PodUid(uid) for uid in self.shown_again}


class Unwary(Node):
    """Takes a pod that mounts no token for one that does: its containers would not start."""

    def believe(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(replace(pod, mounts_token=True) for pod in super().believe(pods))


class Forgetful(Agent):
    """Takes a call that has waited for one that has just come."""

    def answer(self, call: Call) -> dict[str, str] | None:
        return super().answer(replace(call, heard=None))


class Unforgiving(Agent):
    """Keeps what it knew of another life of the kubelet."""

    def forget_kubelet(self) -> None:
        self.ledger = self.ledger.of_new_kubelet(frozenset())


class Gullible(Node):
    """Believes everybody who says that his pod mirrors another."""

    def believe(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(pods)


class Displacing(Agent):
    """Lets a mirror take the place of the pod whose UID it names."""

    def index(self, pods: tuple[Pod, ...]) -> Mapping[PodUid, Pod]:
        return {kubelet_uid(pod): pod for pod in pods}


class Booking(Agent):
    """Books what podresources shows under a name for whoever has the name now."""

    def take(self, view: View) -> None:
        holders = {pod.key: kubelet_uid(pod) for pod in view.pods or ()}
        entries = list(view.checkpoint or ())
        for name, shown in (view.shown or {}).items():
            entries += [
                CheckpointEntry(holders[name], one.name, R, one.devices[R])
                for one in (shown.containers if shown is not None and name in holders else ())
                if one.devices.get(R)
            ]
        super().take(replace(view, checkpoint=entries))


RESTLESS = Disturbances(kubelet_restarts=True)
FORCED = Disturbances(forced_deletions=True)
FORGED = Disturbances(forged_mirrors=True, api_server_fails=True)
GET = Podresources.GET_ACTIVE


def test_agent_that_asks_nobody_at_its_registration_swaps_containers() -> None:
    forgotten = Disturbances(lag_ms=20, forgotten_pods=True, agent_restarts=True)
    assert shows("wrong", lambda seed: Unscreened(Node(seed, GET, forgotten)))
    assert count(lambda seed: Agent(Node(seed, GET, forgotten)))["wrong"] == 0


def test_records_that_a_kubelet_may_have_rejected_swap_containers() -> None:
    rejected = Disturbances(lag_ms=500, forgotten_pods=True, kubelet_restarts=True)
    assert shows("wrong", lambda seed: Recalling(Node(70 + seed, GET, rejected)), 10)
    assert count(lambda seed: Agent(Node(70 + seed, GET, rejected)), 10)["wrong"] == 0


def test_agent_that_forgets_what_was_deleted_swaps_containers() -> None:
    assert shows("wrong", lambda seed: Agent(Trustful(seed, GET, FORCED)))
    assert count(lambda seed: Agent(Node(seed, GET, FORCED)))["wrong"] == 0


def test_agent_that_does_not_wait_for_its_watch_swaps_containers() -> None:
    behind = Disturbances(lag_ms=500, forced_deletions=True)
    assert shows("wrong", lambda seed: Agent(Hasty(70 + seed, GET, behind)), 25)
    assert count(lambda seed: Agent(Node(70 + seed, GET, behind)), 25)["wrong"] == 0


def test_agent_that_is_not_told_what_was_deleted_before_it_began_swaps_containers() -> None:
    restarted = Disturbances(lag_ms=500, forced_deletions=True, agent_restarts=True)
    assert shows("wrong", lambda seed: Agent(Oblivious(148 + seed, GET, restarted)), 4)
    assert count(lambda seed: Agent(Node(148 + seed, GET, restarted)), 4)["wrong"] == 0


def test_agent_that_does_not_doubt_what_it_was_not_told_swaps_containers() -> None:
    restarted = Disturbances(lag_ms=500, forced_deletions=True, agent_restarts=True)
    assert shows("wrong", lambda seed: Agent(Unaware(190 + seed, GET, restarted)), 5)
    assert count(lambda seed: Agent(Node(190 + seed, GET, restarted)), 5)["wrong"] == 0


def test_pod_that_is_gone_may_be_starting_a_container_still() -> None:
    both = Disturbances(lag_ms=500, forced_deletions=True, forgotten_pods=True)
    assert shows("wrong", lambda seed: Agent(Unafraid(270 + seed, GET, both)), 15)
    assert count(lambda seed: Agent(Node(270 + seed, GET, both)), 15)["wrong"] == 0


def test_kubelet_shows_again_whom_it_turned_away_where_the_name_is_anothers() -> None:
    behind = Disturbances(lag_ms=100, forced_deletions=True)
    assert shows("wrong", lambda seed: Agent(Relieved(10 + seed, GET, behind)), 15)
    assert count(lambda seed: Agent(Node(10 + seed, GET, behind)), 15)["wrong"] == 0


def test_pod_without_a_token_starts_though_it_was_turned_away() -> None:
    behind = Disturbances(lag_ms=100, forced_deletions=True)
    assert shows("wrong", lambda seed: Agent(Unwary(10 + seed, GET, behind)), 15)
    assert count(lambda seed: Agent(Node(10 + seed, GET, behind)), 15)["wrong"] == 0


def test_call_that_has_waited_may_be_for_a_pod_whose_deletion_the_kubelet_has_heard_of_since() -> None:
    behind = Disturbances(lag_ms=20, forced_deletions=True)
    assert shows("wrong", lambda seed: Forgetful(Node(180 + seed, GET, behind)), 15)
    assert count(lambda seed: Agent(Node(180 + seed, GET, behind)), 15)["wrong"] == 0


def test_agent_that_remembers_refusals_of_another_kubelet_refuses_again() -> None:
    assert shows("unproven", lambda seed: Unforgiving(Node(seed, GET, RESTLESS), refuses=0.6))
    assert count(lambda seed: Agent(Node(seed, GET, RESTLESS), refuses=0.6))["unproven"] == 0


def test_forged_mirrors_that_are_believed_have_others_refused() -> None:
    nodes = (run(Displacing(Gullible(seed, GET, FORGED))).counts for seed in range(60))
    assert any(set(counts) - {"right"} for counts in nodes)
    assert set(count(lambda seed: Agent(Node(seed, GET, FORGED)))) == {"right"}


def test_devices_booked_by_name_are_those_of_nobody() -> None:
    def has_phantoms(make: Callable[[Node], Agent]) -> bool:
        return any(run(make(Node(seed, GET, FORCED))).phantoms for seed in range(60))

    assert has_phantoms(Booking)
    assert not has_phantoms(Agent)
