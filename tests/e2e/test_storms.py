"""Twenty storms of a hundred pods of all kinds; some are deleted by force, and the agent is killed once."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.e2e.assigned_pods import KINDS, AssignedPod, draw_pod, read_view
from tests.e2e.assigning_agent import AssigningAgent, assigning_agent
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.storms import COLLECTION, THREADS, Refused, clear, list_pods, why_failed
from tests.e2e.test_assignments import own_view
from tests.integration.identity.storm import wanted_view

STORMS = 20
PODS = 100
BY_FORCE = 10
MOST_REMADE = 100
Say = Callable[[str], None]

ANNOUNCED = {Refused.FORMER, Refused.NOT_KNOWN_YET, Refused.NO_AGENT, Refused.MISMATCH}
"""What docs/matching.md says can happen: to a pod whose name was another's that was deleted by force, while
there is no agent, or one that has just started, and where the kubelet had no advice in time."""
MOST_WITHOUT_ADVICE = 3

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def agent(
    cluster: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AssigningAgent]:
    with assigning_agent(cluster, node, tmp_path_factory.mktemp("storms")) as agent:
        yield agent


@dataclass
class Storm:
    """Pods that are to end well, `PODS` of them: who is refused is made anew, as controllers do."""

    node: Node
    agent: AssigningAgent
    workloads: Workloads
    random: Random
    drawn: dict[str, AssignedPod] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    _judged: set[str] = field(default_factory=set)
    _deleted: list[Json] = field(default_factory=list)
    _number: int = 0
    _ended_well: int = 0
    _is_agent_killed: bool = False

    def blow(self) -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(self._make, [self._draw() for _ in range(PODS)]))
        wait_until(
            f"{PODS} pods have ended well",
            self._goes_on,
            timeout_s=600,
            depends_on=[self.node.kubelet.process],
            evidence=lambda: f"{self._ended_well} ended well, {self.refusals}, {self.wrong}",
        )
        for pod in self._deleted:
            for container, assigned in self.drawn[pod["metadata"]["uid"]].assigned.items():
                # Most never ran; of those that did the log has the view.
                if assigned and (seen := read_view(self.node.container_log(pod, container))):
                    self._compare(pod, container, seen)

    def _goes_on(self) -> bool:
        """Looks at every pod once; whether the storm is over."""
        pods = list_pods(self.workloads)
        for pod in pods:
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                self._judge(pod)
        waiting = [pod for pod in pods if pod["status"].get("phase", "Pending") == "Pending"]
        if waiting and len(self._deleted) < BY_FORCE:
            self._replace(self.random.choice(waiting))
        if not self._is_agent_killed and self._ended_well >= PODS // 3:
            self._is_agent_killed = True
            self.agent.process.kill()
            self.agent.process.start()
        return self._ended_well >= PODS

    def _judge(self, pod: Json) -> None:
        """What became of a pod, once."""
        if pod["metadata"]["uid"] in self._judged:
            return
        self._judged.add(pod["metadata"]["uid"])
        if pod["status"]["phase"] == "Failed":
            self.refusals[why_failed(pod)] += 1
            assert self.refusals.total() <= MOST_REMADE, self.refusals
            self._make(self._draw())
            return
        self._ended_well += 1
        for container, assigned in self.drawn[pod["metadata"]["uid"]].assigned.items():
            if assigned:
                self._compare(pod, container, own_view(self.node, pod, container))

    def _compare(self, pod: Json, container: str, seen: tuple[list[str], str | None] | None) -> None:
        assigned = self.drawn[pod["metadata"]["uid"]].assigned[container]
        if seen == wanted_view(assigned):
            self.right += 1
        else:
            which = "deleted by force" if pod in self._deleted else "not deleted"
            name = f"{pod['metadata']['name']}/{container} ({which})"
            self.wrong.append(f"{name}: assigned {assigned}, sees {seen}")

    def _draw(self) -> AssignedPod:
        self._number += 1
        return draw_pod(self.random.choice(sorted(KINDS)), self._number, self.random)

    def _make(self, drawn: AssignedPod) -> None:
        made = self.workloads.apply(drawn.manifest)
        self.drawn[made["metadata"]["uid"]] = drawn

    def _replace(self, pod: Json) -> None:
        """Deletes it by force, and makes another of its name."""
        name = pod["metadata"]["name"]
        try:
            self.workloads.client.send("DELETE", f"{COLLECTION}/{name}", {"gracePeriodSeconds": 0})
        except RefusedError as error:
            if error.status != 404:
                raise
        drawn = self._draw()
        drawn.manifest["metadata"]["name"] = name
        self._make(drawn)
        self._deleted.append(pod)


@pytest.mark.parametrize("number", range(STORMS), ids="{:02}".format)
def test_storm_of_all_kinds_of_pods_gives_nobody_what_is_anothers(
    number: int, agent: AssigningAgent, node: Node, workloads: Workloads, say: Say
) -> None:
    storm = Storm(node, agent, workloads, Random(number))
    try:
        storm.blow()
        say(f"\nstorm {number}: {storm.right} containers right, refused: {dict(storm.refusals)}")
        assert storm.wrong == []
        assert set(storm.refusals) <= ANNOUNCED
        assert storm.refusals[Refused.FORMER] <= BY_FORCE
        assert storm.refusals[Refused.MISMATCH] <= MOST_WITHOUT_ADVICE
    finally:
        clear(workloads)
