"""What must hold at every moment, whatever is done to the kubelet, the agent and the hardware."""

from collections import Counter
from collections.abc import Callable, Set

from accelet.fakekubelet import Event, FakeKubelet
from tests.integration.chaos.progress import Progress

WITHIN_S = 1.0
"""How long a resource may be without its stream while the kubelet answers."""

FIRST_REST_S = 0.02
LONGEST_REST_S = 5.0
LONGEST_REST_AFTER_REFUSAL_S = 60.0


class Watchman:
    """Follows the kubelet's trace and the clock, and keeps what was violated.

    `starved_s` says for how long the agent was kept from running, which is not held against it.
    `expected` says which resources should be registered now; none while nobody could be asked to. An agent
    rests ever longer between tries that keep failing at one and the same kubelet: 0.02 s, doubled each time,
    up to 5 s, or 60 s where it is refused. That much is granted on top of the second.
    """

    def __init__(
        self,
        kubelet: FakeKubelet,
        progress: Progress,
        expected: Callable[[], Set[str]],
        starved_s: Callable[[], float],
    ) -> None:
        self._kubelet = kubelet
        self._progress = progress
        self._expected = expected
        self._starved_s = starved_s
        self._tries: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._alone_since_s: dict[str, tuple[float, float]] = {}
        self._overlap_until_s = 0.0
        self._in_flight = 0
        self._may_give_twice = False
        self.streams: Counter[str] = Counter()
        self.violations: list[str] = []
        kubelet.trace.listen(self._heard)

    def agent_is_killed(self) -> None:
        """What it leaves behind may take a moment to go: until then two streams are nobody's fault."""
        self._overlap_until_s = self._progress.now_s + WITHIN_S
        self.agent_has_started()

    def agent_has_started(self) -> None:
        self._tries.clear()
        self._refusals.clear()
        self.disturbed()

    def disturbed(self) -> None:
        """Something was done after which everybody may begin anew."""
        self._alone_since_s.clear()

    def granted_s(self, resource: str) -> float:
        """How long the resource may be without a stream from now on."""
        most_s = LONGEST_REST_AFTER_REFUSAL_S if self._refusals[resource] else LONGEST_REST_S
        rest_s = min(FIRST_REST_S * 2.0 ** self._tries[resource], most_s) if self._tries[resource] else 0.0
        return WITHIN_S + rest_s

    def is_live(self, resource: str) -> bool:
        return self.streams[resource] == 1 and self._kubelet.resource(resource).is_connected

    def look(self) -> None:
        """Called at every tick."""
        now_s = self._progress.now_s
        for resource in list(self._alone_since_s.keys() - self._expected()):
            del self._alone_since_s[resource]
        for resource in self._expected():
            if self.is_live(resource):
                self._alone_since_s.pop(resource, None)
                continue
            starved_s = self._starved_s()
            since_s, starved_before_s = self._alone_since_s.setdefault(resource, (now_s, starved_s))
            if now_s - since_s > self.granted_s(resource) + starved_s - starved_before_s:
                self._violated(
                    f"{resource} has {self.streams[resource]} streams and is "
                    f"{'' if self._kubelet.resource(resource).is_connected else 'not '}connected, for "
                    f"{now_s - since_s:.2f} s (granted: {self.granted_s(resource):.2f} s)"
                )
                self._alone_since_s[resource] = now_s, starved_s
        self._look_at_devices()

    def _look_at_devices(self) -> None:
        holders: dict[tuple[str, str], str] = {}
        for record in self._kubelet.pods:
            if record.is_over or not record.admitted:
                continue
            name = str(record.pod)
            for container in record.containers.values():
                for resource, devices in container.devices.items():
                    for device in devices:
                        holder = holders.setdefault((resource, device), name)
                        if holder != name and not self._may_give_twice:
                            self._violated(f"{device} of {resource} is given to {holder} and to {name}")

    def _heard(self, event: Event) -> None:
        resource = event.resource or ""
        match event.event:
            case "kubelet-started" | "kubelet-stopped":
                self.streams.clear()
                self._in_flight = 0
                self.agent_has_started()  # to a new kubelet it begins anew
            case "kubelet-crashed":
                self._violated(f"the kubelet crashed: {event.detail}")
            case "register":
                self._tries[resource] += 1
                self._refusals[resource] += self._kubelet.faults.register.fault is not None
            case "watch" | "stream-ended":
                self._count_stream(resource, 1 if event.event == "watch" else -1)
            case "allocate" | "allocated" | "allocate-failed" | "freed":
                self._count_allocation(event.event)

    def _count_stream(self, resource: str, more: int) -> None:
        self.streams[resource] += more
        if self.streams[resource] > 1 and self._progress.now_s >= self._overlap_until_s:
            self._violated(f"{resource} has {self.streams[resource]} streams at once")

    def _count_allocation(self, event: str) -> None:
        """Up to 1.37 the kubelet forgets an allocation under way whenever it counts again."""
        self._in_flight += {"allocate": 1, "freed": 0}.get(event, -1)
        is_counted_again = event in ("allocate-failed", "freed")
        if is_counted_again and self._in_flight and self._kubelet.version.loses_reservations_in_flight:
            self._may_give_twice = True

    def _violated(self, what: str) -> None:
        waited = (
            f"longest lag of the loop so far {self._progress.longest_lag_s:.2f} s, "
            f"agent starved for {self._starved_s():.2f} s"
        )
        self.violations.append(f"at {self._progress.now_s:.2f} s of progress: {what}; {waited}")
