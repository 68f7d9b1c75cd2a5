"""A storm of claims while agent and kubelet are killed: what every container saw, and who had what when."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.dra.history import ClaimHistory
from tests.e2e.dra.oracle import Held, Part, find_doubles, parts_of, seen_in
from tests.e2e.dra.requests import KINDS, Asked, draw
from tests.e2e.dra.site import GROUPS, PODS, Site

AT_ONCE = 14
"""More would only wait for devices."""


@dataclass
class Storm:
    """What is seen of a storm."""

    site: Site
    waiting: deque[Asked]
    history: ClaimHistory
    live: dict[str, Asked] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return not (self.waiting or self.live)

    @property
    def summary(self) -> str:
        return f"{len(self.history.allocations)} claims, {len(self.held)} pods saw what their claims said"

    def step(self) -> None:
        """Makes what there is room for, looks at all pods once, and takes away those that have ended."""
        while self.waiting and len(self.live) < AT_ONCE:
            asked = self.waiting.popleft()
            self.site.user.apply(asked.pod)
            self.live[asked.name] = asked
        pods = json.loads(self.site.user.client.send("GET", PODS))["items"]
        self.history.follow()
        for pod in pods:
            ended = self.live.get(pod["metadata"]["name"])
            if ended is None:
                continue
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                self._judge(ended, pod)
                self.site.user.client.send("DELETE", f"{PODS}/{ended.name}")
                del self.live[ended.name]

    def _judge(self, asked: Asked, pod: Json) -> None:
        if pod["status"]["phase"] == "Failed":
            self.wrong.append(f"{asked.name} failed: {self.site.user.describe_pod(asked.name)}")
            return
        uid = pod["metadata"]["uid"]
        seen: frozenset[Part] = frozenset()
        for container, uses in asked.uses.items():
            expected = parts_of(self._results(uid, uses))
            found = seen_in(self._log(asked.name, container), GROUPS)
            if found != expected or not expected:
                self.wrong.append(f"{asked.name}/{container} sees {found}, its claims say {expected}")
            seen |= found or frozenset()
        began, ended = _times(pod)
        self.held.append(Held(asked.name, seen, began, ended, self._millicores(asked, uid)))

    def _log(self, pod: str, container: str) -> str:
        """What it printed; a kubelet that was just started does not know its pods yet."""

        def read() -> str | None:
            try:
                return self.site.user.log(pod, container)
            except RefusedError:
                return None

        return wait_until(f"the log of {pod}/{container} is there", read, timeout_s=60)

    def _results(self, pod_uid: str, uses: Sequence[tuple[str, str | None]]) -> Sequence[Json]:
        return [
            result
            for claim, request in uses
            for result in self.history.last(pod_uid, claim)
            if request in (None, result["request"].partition("/")[0])
        ]

    def _millicores(self, asked: Asked, pod_uid: str) -> int | None:
        if not asked.is_share:
            return None
        (result,) = self.history.last(pod_uid, "devices")
        return int(result["consumedCapacity"]["millicores"])


def _times(pod: Json) -> tuple[datetime, datetime]:
    """When its first container began, and when its last ended."""
    statuses = [
        *(pod["status"].get("initContainerStatuses") or ()),
        *pod["status"]["containerStatuses"],
    ]
    ends = [one["state"]["terminated"] for one in statuses]
    return (
        min(datetime.fromisoformat(one["startedAt"]) for one in ends),
        max(datetime.fromisoformat(one["finishedAt"]) for one in ends),
    )


def draw_all(random: Random, claims: int) -> list[Asked]:
    """Pods with so many claims in all: each kind in turn, so that none is missing, in a random order."""
    pods: list[Asked] = []
    while sum(one.claims for one in pods) < claims:
        pods.append(draw(random, len(pods), KINDS[len(pods) % len(KINDS)]))
    random.shuffle(pods)
    return pods


def run(
    site: Site, random: Random, claims: int, blows: Sequence[Callable[[], None]], *, timeout_s: float
) -> Storm:
    """Runs a storm; each of `blows` is struck once, when pods have ended, spread over the whole.

    Raises WaitedInVainError where pods go on waiting.
    """
    pods = draw_all(random, claims)
    storm = Storm(site, deque(pods), ClaimHistory(site.user.client))
    at = sorted(random.sample(range(1, len(pods) - AT_ONCE), len(blows)))
    left = deque(zip(at, blows, strict=True))

    def step() -> bool:
        storm.step()
        if left and len(pods) - len(storm.waiting) - len(storm.live) >= left[0][0]:
            left.popleft()[1]()
        return storm.is_over

    wait_until(
        "all pods of the storm have ended",
        step,
        timeout_s=timeout_s,
        evidence=lambda: "\n".join(site.user.describe_pod(name) for name in list(storm.live)[:3]),
    )
    storm.wrong += find_doubles(storm.held)
    return storm


def kill_agent(site: Site) -> Callable[[], None]:
    def blow() -> None:
        site.agent.kill()
        site.agent.start()

    return blow


def kill_kubelet(site: Site) -> Callable[[], None]:
    def blow() -> None:
        site.node.kubelet.process.kill()
        site.node.kubelet.start()

    return blow
