"""A small simulation of a node: an API server, a kubelet that admits pods, and watches that lag behind.

It follows what the kubelet does (Kubernetes 1.27 to 1.38) as far as it bears on who is asked for, and knows
the truth about every call. Time is in ms; everything random comes from one seed.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from accelet.accelerators.device import DeviceId
from accelet.kube.objects import ObjectKey, Owner
from accelet.kube.pods import Container, ContainerStatus, Pod
from accelet.kube.poduid import PodUid, leave_out_forged, may_recur
from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.podresources import ContainerRecord, PodRecord
from accelet.node.pods.former import FormerPods
from accelet.node.pods.gap import WatchGap
from accelet.node.pods.remains import has_begun, without_start
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.matching.inquiry import Podresources

R = "gpu.intel.com/i915"
SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Disturbances:
    """What besides plain pods happens on the node, and how far the agent's watch lags."""

    lag_ms: int = 0
    static_pods: bool = False
    forgotten_pods: bool = False
    kubelet_restarts: bool = False
    agent_restarts: bool = False
    api_server_fails: bool = False
    forced_deletions: bool = False
    forged_mirrors: bool = False


@dataclass(frozen=True)
class Call:
    """One Allocate as the plugin sees it, and for whom it really is."""

    truth: ContainerKey
    device_ids: frozenset[DeviceId]
    is_admission: bool = True
    heard: frozenset[PodUid] | None = None
    """What the agent knew the kubelet to have heard of when the call came, if it has waited since."""


Plugin = Callable[[Call], Mapping[str, str] | None]
"""Answers a call with annotations, or refuses it with None."""

NODE_UID = "node-uid"
NODE = Owner("Node", "node", NODE_UID, is_controller=True)


@dataclass
class Watch:
    """The events of the API server up to some time ago; it never runs backwards.

    `shown` are the pods as its events had them. A list that overtakes them tells neither how a pod was at its
    end nor which pods were made and deleted meanwhile; of that the events tell later (`listed`: up to which).
    Of the events up to `resumed` another agent was told before; what pods that had begun had, it alone knew.
    Those up to `recorded` the watch does not tell again, but that is not played.
    """

    lag_ms: int
    seen: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    deleted: dict[str, Pod] = field(default_factory=dict)
    shown: dict[str, Pod] = field(default_factory=dict)
    listed: int = 0
    resumed: int = 0
    recorded: int = 0
    gap: WatchGap = field(default_factory=WatchGap)
    former: FormerPods = field(default_factory=FormerPods)

    def catch_up(self, log: list[tuple[int, str, Pod | None]], now_ms: int) -> list[tuple[str, Pod | None]]:
        events = []
        while self.seen < len(log) and log[self.seen][0] <= now_ms - self.lag_ms:
            _, uid, pod = log[self.seen]
            self.seen += 1
            events.append((uid, pod))
            if pod is None:
                gone = self.shown.pop(uid)
                self.former.note(gone, 0.0, is_end=True)
                self.deleted[uid] = gone if self.seen > self.resumed else without_start(gone)
            else:
                if uid not in self.shown and self.seen > self.recorded:
                    self.former.note_binding(uid)
                    self.former.note_living(self.pods.get(uid, pod))
                self.shown[uid] = pod
            if self.seen <= self.listed:
                continue
            if pod is None:
                self.pods.pop(uid, None)
            else:
                self.pods[uid] = pod
                self.gap.note(pod)
                self.former.note_living(pod)
        return events

    def take_list(self, pods: Mapping[str, Pod], position: int) -> None:
        self.deleted |= {uid: pod for uid, pod in self.pods.items() if uid not in pods}
        for pod in pods.values():
            self.former.note_living(pod)
        kept = [uid for uid in self.pods if uid in pods]
        self.pods = {uid: pods[uid] for uid in (*kept, *pods)}
        self.listed = position


class Node:
    def __init__(self, seed: int, mode: Podresources, disturbances: Disturbances, pods: int = 12) -> None:
        self.random = Random(seed)
        self.mode = mode
        self.with_ = disturbances
        self.now_ms = 0
        self.versions = itertools.count(1)
        self.numbers = itertools.count(1)
        self.api: dict[str, Pod] = {}
        self.log: list[tuple[int, str, Pod | None]] = []
        self.timers: list[tuple[int, int, Callable[[], None]]] = []
        self.agent_watch = Watch(disturbances.lag_ms)
        self.kubelet_watch = Watch(self.random.choice([0, 1, 20]))
        # The kubelet's memory.
        self.known: dict[str, Pod] = {}
        self.inactive: set[str] = set()
        self.forgotten: set[str] = set()
        self.devices: dict[ContainerKey, frozenset[DeviceId]] = {}
        self.answers: dict[ContainerKey, Mapping[str, str]] = {}
        self.checkpoint: tuple[CheckpointEntry, ...] = ()
        self.checkpoint_generation = 0
        self.queue: list[Pod | str] = []
        """Pods to admit and UIDs to forget, in the order in which the watch told of them."""
        self.heard: set[str] = set()
        self.kubelet_generation = 0
        self.agent_generation = 0
        self.registrations = 0
        self.stopping: dict[str, tuple[int, Pod, Container]] = {}
        """Pods that it has removed while it was about to ask for devices for a container, and until when."""
        self.starting: set[str] = set()
        """Pods of which a container is starting without its devices: during its call."""
        self.shown_again: set[str] = set()
        """Pods that it turned away and takes for active ones all the same."""
        self.taken_up: set[str] = set()
        """Those of them that it tries to start, and whose volumes it can mount."""
        self.untold: set[str] = set()
        """Pods of which an agent cannot know; none of these is taken up."""
        self.under_way: dict[str, tuple[int, Pod, Container, frozenset[PodUid]]] = {}
        """Of pods that it has removed: calls that wait for the agent's answer to another, and until when."""
        self.admitting = ""
        """The UID of the pod it is admitting: of that one no container starts before it is admitted."""
        self.knows_resource = True
        self.is_served = True
        self.began: dict[str, int] = {}
        self.deleted_by_force: list[Pod] = []
        self.had: dict[ContainerKey, set[frozenset[DeviceId]]] = {}
        self.plugin: Plugin = lambda _: {}
        self.registering: Callable[[], None] = lambda: None
        self.batch = batch = self.random.randrange(3000)
        for _ in range(pods):
            self.at(batch if self.random.random() < 0.4 else self.random.randrange(3000), self.create)
        self.disturb(disturbances)
        self.wants_restart = False

    def disturb(self, disturbances: Disturbances) -> None:
        if disturbances.kubelet_restarts:
            self.at(self.random.randrange(500, 3000), self.ask_for_restart)
        if disturbances.agent_restarts:
            soon = self.batch + self.random.randrange(300)  # while many wait
            self.at(self.random.choice([soon, self.random.randrange(500, 3000)]), self.restart_agent)
        if disturbances.static_pods:
            for _ in range(3):
                self.at(self.random.randrange(3000), self.add_static)
        if disturbances.forgotten_pods:
            self.knows_resource = self.is_served = False
            self.at(0, lambda: self.create("db-0"))
            soon = self.random.randrange(20, 100)  # few are admitted without devices
            self.at(self.random.choice([soon, self.random.randrange(100, 1500)]), self.register)
        if disturbances.forced_deletions:
            for _ in range(8):
                soon = self.batch + self.random.randrange(100)  # while many wait
                self.at(self.random.choice([soon, self.random.randrange(3000)]), self.delete_by_force)
        if disturbances.forged_mirrors:
            for _ in range(3):
                soon = self.batch + self.random.randrange(20)  # while many wait
                self.at(self.random.choice([soon, self.random.randrange(3000)]), self.forge_mirror)

    # Time.

    def at(self, time_ms: int, do: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (time_ms, next(self.numbers), do))

    def later(self, low_ms: int, high_ms: int, do: Callable[[], None]) -> None:
        self.at(self.now_ms + self.random.randint(low_ms, high_ms), do)

    def pass_time(self, most_ms: int) -> None:
        until = self.now_ms + self.random.randint(0, most_ms)
        while self.timers and self.timers[0][0] <= until:
            self.now_ms, _, do = heapq.heappop(self.timers)
            do()
        self.now_ms = until
        self.agent_watch.catch_up(self.log, self.now_ms)
        if self.starting and not self.admitting:
            self.receive()
            while self.queue and isinstance(self.queue[0], str):
                self.handle(self.queue.pop(0))

    # The API server and the controllers.

    def write(self, pod: Pod) -> None:
        pod = replace(pod, resource_version=str(next(self.versions)))
        self.api[pod.uid] = pod
        self.log.append((self.now_ms, pod.uid, pod))

    def remove(self, uid: str) -> None:
        if self.api.pop(uid, None) is not None:
            self.log.append((self.now_ms, uid, None))

    def update(self, uid: str, **changes: object) -> None:
        if uid in self.api:
            self.write(replace(self.api[uid], **changes))  # type: ignore[arg-type]  # names are checked by replace

    def create(self, name: str | None = None) -> None:
        """A pod is made and bound to this node; a stateful set's name at most once at a time."""
        random, number = self.random, next(self.numbers)
        owners = (Owner("StatefulSet", "db", "s", is_controller=True),)
        if name is None and random.random() < 0.6:
            name = "web-" + "".join(random.choices(SUFFIX, k=5))
            owners = (Owner("ReplicaSet", "web", "r", is_controller=True),)
        name = name or f"db-{random.randrange(3)}"
        if any(pod.name == name for pod in self.api.values()):
            return
        self.write(self.draw_pod(f"uid-{number}", name, owners))

    def draw_pod(self, uid: str, name: str, owners: tuple[Owner, ...] = ()) -> Pod:
        random = self.random

        def draw(kind: str, index: int, sidecar: bool = False) -> Container:
            size = random.choice([0, 1, 1, 2])
            return Container(f"{kind}{index}", limits={R: size} if size else {}, is_sidecar=sidecar)

        kinds = [random.choice(["init", "side"]) for _ in range(random.choice([0, 0, 1, 2]))]
        return Pod(
            "ns",
            name,
            uid=uid,
            # Created some time before it is bound: the order of creation is not that of admission.
            created_s=float((self.now_ms - random.randrange(2000)) // 1000),
            annotations={"gas-ts": str(10**9 + self.now_ms * 1000 - random.randrange(300_000))},
            owners=owners,
            init_containers=tuple(draw(kind, i, kind == "side") for i, kind in enumerate(kinds)),
            containers=tuple(draw("main", i) for i in range(random.choice([1, 1, 2, 3]))),
            mounts_token=int(uid.rpartition("-")[2]) % 3 != 0,
        )

    def post_end(self, uid: str, phase: str, generation: int) -> None:
        """The kubelet's status arrives, if it still is that kubelet; a controller replaces the pod."""
        pod = self.api.get(uid)
        if generation != self.kubelet_generation:
            return
        if pod is None:
            if phase == "Failed" and uid in self.known:
                self.forget_that_it_failed(self.known[uid])
            return
        self.update(uid, phase=phase)

        def delete() -> None:
            self.remove(uid)
            if pod.owners and pod.owners[0].kind == "StatefulSet":
                self.later(1, 60, lambda: self.create(pod.name))

        if self.random.random() < 0.8:
            self.later(1, 60, delete)

    def forget_that_it_failed(self, pod: Pod) -> None:
        """The kubelet drops the status of a pod whose name is another's, and takes it for active again."""
        if any(one.key == pod.key for one in self.api.values()):
            self.inactive.discard(pod.uid)
            self.shown_again.add(pod.uid)

    def post_waiting(self, uid: str, generation: int) -> None:
        """The kubelet has admitted the pod and pulls its images."""
        pod = self.api.get(uid)
        if pod is not None and not pod.has_started and generation == self.kubelet_generation:
            self.update(uid, statuses={c.name: ContainerStatus("waiting") for c in pod.all_containers})

    def delete_by_force(self) -> None:
        """Somebody deletes a pod that the kubelet has not ended, and mostly makes it anew, as another pod."""
        if not (found := [pod for pod in self.api.values() if not pod.is_mirror]):
            return
        lacking = [one for one in found if one.uid in self.forgotten and self.random.random() < 0.5]
        pod = self.random.choice(lacking or [one for one in found if may_recur(one)] or found)
        self.deleted_by_force.append(pod)
        self.remove(pod.uid)
        if may_recur(pod):
            self.later(1, 20, lambda: self.create(pod.name))

    def forge_mirror(self) -> None:
        """A tenant's pod says that it mirrors another one; the kubelet takes no notice of it."""
        victims = sorted(uid for uid, pod in self.api.items() if pod.phase == "Pending" and not pod.statuses)
        number = next(self.numbers)
        if victims:
            owner = self.random.choice([(), (NODE,), (replace(NODE, uid="other"),)])
            forged = self.draw_pod(f"uid-{number}", f"forged-{number}", owner)
            said = {"kubernetes.io/config.mirror": self.random.choice(victims)}
            self.write(replace(forged, annotations=said))

    def post_running(self, uid: str, generation: int) -> None:
        pod = self.api.get(uid)
        if pod is not None and not pod.is_terminal and generation == self.kubelet_generation:
            started = {c.name: ContainerStatus("running", has_run=True) for c in pod.all_containers}
            self.update(uid, phase="Running", statuses=started)

    # The kubelet.

    def run(self, plugin: Plugin) -> None:
        """Everything that happens, up to the end."""
        self.plugin = plugin
        while self.timers or self.queue or self.kubelet_watch.seen < len(self.log):
            self.pass_time(30)
            self.receive()
            while self.queue:
                if self.wants_restart:
                    self.restart_kubelet()
                    break
                self.keep_house()
                self.handle(self.queue.pop(0))
            self.keep_house()
            if self.wants_restart:
                self.restart_kubelet()
            self.maybe_restart_container()

    def receive(self) -> None:
        for uid, pod in self.kubelet_watch.catch_up(self.log, self.now_ms):
            if pod is None:
                self.queue.append(uid)
            elif uid in self.known:
                self.known[uid] = pod
            elif not pod.is_terminal and not pod.is_mirror and uid not in self.heard:
                self.heard.add(uid)
                self.queue.append(pod)

    def keep_house(self) -> None:
        """Between two admissions it begins to start what is active and not being started."""
        for uid in sorted(self.shown_again & self.known.keys() - self.inactive - self.taken_up):
            if not self.known[uid].mounts_token and uid not in self.untold and self.random.random() < 0.3:
                self.taken_up.add(uid)

    def handle(self, event: Pod | str) -> None:
        """What the watch told, in its turn: also a pod that somebody has deleted since is admitted first."""
        if isinstance(event, str):
            pod = self.known.pop(event, None)
            if pod is not None and event in self.taken_up:
                # It asks for nothing more for a pod that it has removed; what it has asked is under way.
                container = self.random.choice(pod.all_containers)
                until_ms = self.now_ms + self.random.randrange(2000)
                if ContainerKey(PodUid(event), container.name) not in self.devices:
                    self.under_way[event] = until_ms, pod, container, self.heard_of()
            if pod is not None and self.is_served and event in self.forgotten - self.inactive:
                container = self.random.choice(pod.all_containers)
                if ContainerKey(PodUid(event), container.name) not in self.devices:
                    self.stopping[event] = self.now_ms + self.random.randrange(2000), pod, container
        else:
            self.admit(event)

    def admit(self, pod: Pod) -> None:
        """One pod, from being known to running or turned away."""
        generation = self.kubelet_generation
        self.known[pod.uid] = pod
        self.forgotten.discard(pod.uid)  # by a former kubelet; nothing of it runs, or it would not be here
        self.began[pod.uid] = self.registrations
        self.admitting = pod.uid
        for _ in self.admission(pod):
            self.pass_time(3)
            self.maybe_restart_container()
            if self.wants_restart and self.random.random() < 0.3:
                self.restart_kubelet()
            if generation != self.kubelet_generation:
                return
        self.admitting = ""
        if pod.uid in self.inactive:
            soon = self.random.choice([5, 100]) if self.with_.forced_deletions else 100
            self.later(1, soon, lambda: self.post_end(pod.uid, "Failed", generation))
            return
        if pod.uid.startswith("static"):
            said = {"kubernetes.io/config.mirror": pod.uid}
            mirror = replace(pod, uid=f"mirror-{pod.uid}", annotations=said, owners=(NODE,))
            self.later(1, 100, lambda: self.write(mirror))
            return
        if self.random.random() < 0.3:
            self.later(1, 100, lambda: self.post_waiting(pod.uid, generation))
            self.later(500, 2000, lambda: self.post_running(pod.uid, generation))
        else:
            self.later(1, 100, lambda: self.post_running(pod.uid, generation))
        if self.random.random() < 0.5:
            self.later(100, 1500, lambda: self.finish(pod.uid))

    def admission(self, pod: Pod) -> Iterator[None]:
        yield
        if self.random.random() < 0.15:
            self.inactive.add(pod.uid)  # by a handler that comes before the devices
            return
        for container in pod.all_containers:
            yield  # also for calls to other plugins
            generation = self.kubelet_generation
            if not self.allocate(pod, container):
                if generation == self.kubelet_generation:
                    self.inactive.add(pod.uid)
                yield
                return
        yield
        if self.random.random() < 0.1:
            self.inactive.add(pod.uid)  # by one that comes after

    def allocate(self, pod: Pod, container: Container, heard: frozenset[PodUid] | None = None) -> bool:
        key, size = ContainerKey(PodUid(pod.uid), container.name), int(container.limits.get(R, 0))
        if size == 0 or key in self.devices:
            return True
        if not (self.knows_resource and self.is_served):
            self.forgotten |= set() if self.knows_resource else {pod.uid}
            return not self.knows_resource
        self.free_lazily()
        taken = {device for ids in self.devices.values() for device in ids}
        reusable = {
            device
            for init in pod.init_containers
            if not init.is_sidecar
            for device in self.devices.get(ContainerKey(PodUid(pod.uid), init.name), ())
        }
        free = sorted(reusable) + sorted(DeviceId(f"d{n}") for n in range(40) if f"d{n}" not in taken)
        if len(free) < size:
            return False
        ids = frozenset(free[:size])
        answer = self.plugin(Call(key, ids, self.began.get(pod.uid) == self.registrations, heard))
        if answer is None:
            return False
        if self.wants_restart and self.random.random() < 0.5:
            self.restart_kubelet()  # it dies before it has taken the answer
            return False
        self.devices[key], self.answers[key] = ids, answer
        self.had.setdefault(key, set()).add(ids)
        self.write_checkpoint()
        return True

    def free_lazily(self) -> None:
        queued = {pod.uid for pod in self.queue if isinstance(pod, Pod)}
        for key in list(self.devices):
            if key.pod_uid not in self.known.keys() | queued or key.pod_uid in self.inactive:
                del self.devices[key]

    def write_checkpoint(self) -> None:
        self.checkpoint_generation = self.kubelet_generation
        self.checkpoint = tuple(
            CheckpointEntry(key.pod_uid, key.container, R, frozenset(ids), self.answers[key])
            for key, ids in self.devices.items()
        )

    def finish(self, uid: str) -> None:
        """The pod's containers end, or it is deleted.

        Not one that was turned away: it has ended, and the API server keeps it until that is written.
        """
        if uid not in self.known or uid in self.inactive:
            return
        # One worker does one thing after the other for a pod, and none for one that is being admitted.
        if uid in self.starting or uid == self.admitting:
            self.later(1, 30, lambda: self.finish(uid))
            return
        self.inactive.add(uid)
        if self.random.random() < 0.5:
            generation = self.kubelet_generation
            self.later(0, 100, lambda: self.post_end(uid, "Succeeded", generation))
            return
        pod = self.known[uid]

        def remove() -> None:
            self.update(uid, phase="Succeeded")  # the kubelet writes its end before it lets it go
            self.remove(uid)

        self.later(0, 100, remove)
        if pod.owners and pod.owners[0].kind == "StatefulSet":
            self.later(101, 200, lambda: self.create(pod.name))

    def ask_for_restart(self) -> None:
        self.wants_restart = True

    def restart_kubelet(self) -> None:
        """Its memory is its checkpoint now. It lists its pods, oldest first, and admits what does not run."""
        self.wants_restart = False
        self.kubelet_generation += 1
        self.is_served = False
        self.later(0, 50, self.register)
        is_rejected = False
        if self.with_.forgotten_pods and self.random.random() < 0.5:
            # It rejects its checkpoint, and writes another at the next occasion.
            is_rejected, self.knows_resource = True, False
            self.forgotten |= self.known.keys()
        static = [pod for pod in self.known.values() if pod.uid.startswith("static")]
        ended = {uid for uid in self.inactive if uid in self.api and self.api[uid].statuses}
        self.known, self.inactive, self.stopping = {}, ended, {}
        self.taken_up, self.under_way = set(), {}
        self.starting, self.admitting = set(), ""
        self.answers = {
            ContainerKey(PodUid(entry.pod_uid), entry.container): entry.annotations
            for entry in (() if is_rejected else self.checkpoint)
        }
        self.devices = {
            ContainerKey(PodUid(entry.pod_uid), entry.container): frozenset(map(DeviceId, entry.device_ids))
            for entry in (() if is_rejected else self.checkpoint)
        }
        self.kubelet_watch.catch_up(self.log, self.now_ms + 10_000)
        batch = [pod for pod in self.api.values() if not pod.is_terminal and not pod.is_mirror]
        self.random.shuffle(batch)
        batch.sort(key=lambda pod: pod.created_s)
        for pod in static:
            self.known[pod.uid] = pod
        self.queue = []
        self.heard = {pod.uid for pod in batch}
        for pod in batch:
            if pod.phase == "Running" or pod.uid in ended:
                self.known[pod.uid] = pod
                if pod.uid in ended:
                    self.later(0, 100, partial(self.post_end, pod.uid, "Succeeded", self.kubelet_generation))
            else:
                self.queue.append(pod)

    def restart_agent(self) -> None:
        """It is away for a while; it has forgotten all that it does not read. Calls under way fail."""
        self.agent_generation += 1
        self.stopping, self.under_way = {}, {}
        self.is_served = False
        self.later(0, self.random.choice([20, 300]), self.register)

    def register(self) -> None:
        """The agent finds out what it has to know before, and then the kubelet knows the resource."""
        if self.is_served:
            return
        self.registering()
        self.stopping, self.under_way = {}, {}
        self.knows_resource = self.is_served = True
        self.registrations += 1
        self.write_checkpoint()  # as after each list of devices

    # What only some nodes have.

    def add_static(self) -> None:
        number = next(self.numbers)
        self.queue.append(self.draw_pod(f"static-{number}", f"static-{number}"))

    def maybe_restart_container(self) -> None:
        """A forgotten pod's container starts again: a call beside whatever is being admitted.

        Also one that is deleted at this moment, and that podresources shows no longer.
        """
        for uid, (until_ms, stopped, container) in list(self.stopping.items()):
            if self.random.random() < 0.1 or self.now_ms > until_ms:
                self.stopping.pop(uid, None)  # it may have begun anew meanwhile
                if self.is_served and self.now_ms <= until_ms:
                    self.start(stopped, container)
        for uid in sorted(self.forgotten & self.known.keys() - self.inactive - {self.admitting}):
            if uid in self.known and not uid.startswith("static") and self.random.random() < 0.03:
                pod = self.known[uid]
                if self.is_served:
                    self.start(pod, self.random.choice(pod.all_containers))
        self.maybe_start_taken_up()

    def maybe_start_taken_up(self) -> None:
        """A container of a pod that was turned away starts all the same, or its call is answered late."""
        for uid, (until_ms, gone, container, heard) in list(self.under_way.items()):
            if self.random.random() < 0.1 or self.now_ms > until_ms:
                self.under_way.pop(uid, None)
                if self.is_served and self.now_ms <= until_ms:
                    self.start(gone, container, heard)
        for uid in sorted(self.taken_up & self.known.keys() - self.inactive):
            if uid in self.known and self.random.random() < 0.1 and self.is_served:
                pod = self.known[uid]
                self.start(pod, self.random.choice(pod.all_containers))

    def start(self, pod: Pod, container: Container, heard: frozenset[PodUid] | None = None) -> None:
        """A worker of the pod asks. If no pod is being admitted, the kubelet hears of removals meanwhile."""
        if pod.uid not in self.starting:
            self.starting.add(pod.uid)
            self.allocate(pod, container, heard)
            self.starting.discard(pod.uid)

    # What the agent can ask.

    def get(self, name: ObjectKey) -> PodRecord | None:
        for uid, pod in self.known.items():
            if pod.key == name and (self.mode is not Podresources.GET_ACTIVE or uid not in self.inactive):
                return self.record(pod)
        return None

    def list_all(self) -> tuple[PodRecord, ...]:
        return tuple(self.record(pod) for pod in self.known.values())

    def record(self, pod: Pod) -> PodRecord:
        shown = [c for c in pod.init_containers if c.is_sidecar] + list(pod.containers)
        return PodRecord(
            pod.namespace,
            pod.name,
            tuple(
                ContainerRecord(c.name, {R: frozenset(held)} if held else {})
                for c in shown
                for held in [self.devices.get(ContainerKey(PodUid(pod.uid), c.name), frozenset())]
            ),
        )

    def watch_anew(self) -> None:
        """Another agent begins with a list, and mostly with what the one before it and the watch told."""
        end = len(self.log)
        has_gap = self.with_.forced_deletions and self.random.random() < 0.4 and not self.are_names_missing()
        before = self.agent_watch
        self.agent_watch = Watch(
            self.with_.lag_ms, pods=dict(self.api), listed=end, resumed=end, recorded=before.seen
        )
        self.agent_watch.former.note_expected(before.pods)
        if has_gap:
            self.agent_watch.seen, self.agent_watch.shown = end, dict(self.api)
            self.agent_watch.gap = WatchGap.among(self.api.values(), 0.0)
        self.agent_watch.catch_up(self.log, self.now_ms)
        # Of whom it is not told, and who is without devices, nobody starts here: that is not played.
        last = {uid: pod for _, uid, pod in self.log if pod is not None}
        gone = last.keys() - self.api.keys()
        self.forgotten -= {uid for uid in gone if has_gap or has_begun(last[uid])}
        if has_gap:
            self.untold |= gone
            self.taken_up -= gone

    def are_names_missing(self) -> bool:
        """Whether a pod that was deleted by force is still to be made anew, which is not played then."""
        names = {pod.name for pod in self.api.values()}
        return any(may_recur(pod) and pod.name not in names for pod in self.deleted_by_force)

    def knows_former(self) -> bool:
        return self.agent_watch.gap.is_over(0.0)

    def heard_of(self) -> frozenset[PodUid]:
        return self.agent_watch.former.heard()

    def deletions(self) -> Mapping[PodUid, int]:
        return self.agent_watch.former.deletions()

    def deleted_before(self) -> Mapping[PodUid, int]:
        return self.agent_watch.former.deleted_before()

    def vanished(self) -> frozenset[PodUid]:
        return self.agent_watch.former.find_vanished(self.agent_watch.pods)

    def believe(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(leave_out_forged(pods, NODE_UID))

    def watched(self) -> tuple[Pod, ...]:
        return self.believe(self.agent_watch.pods.values())

    def unwatched(self) -> frozenset[PodUid]:
        return frozenset(map(PodUid, self.agent_watch.pods.keys() - self.agent_watch.shown.keys()))

    def follow(self, pod: Pod, within_ms: int) -> bool:
        """Waits until the watch has shown the pod, if only to be gone since; whether it has."""
        return self.wait(lambda: pod.uid in {*self.agent_watch.shown, *self.agent_watch.deleted}, within_ms)

    def follow_end(self, uid: PodUid, within_ms: int) -> bool:
        """Waits until the watch has shown how the pod was at its end; whether it has."""
        watch = self.agent_watch
        return self.wait(lambda: uid in watch.deleted and uid not in watch.shown, within_ms)

    def wait(self, is_so: Callable[[], bool], within_ms: int) -> bool:
        until = self.now_ms + within_ms
        generation = self.agent_generation
        while not is_so() and self.now_ms < until:
            if generation != self.agent_generation:
                return False  # nobody is waiting any more
            self.pass_time(20)
        return is_so()

    def version(self) -> str:
        """That of what was written last."""
        return str(max((int(pod.resource_version) for _, _, pod in self.log if pod is not None), default=0))

    def deleted(self) -> tuple[Pod, ...]:
        return tuple(self.agent_watch.deleted.values())

    def read(self) -> tuple[Pod, ...] | None:
        """The pods as they are now; None if the API server does not answer."""
        if self.with_.api_server_fails and self.random.random() < 0.3:
            return None
        return self.believe(self.api.values())

    def list_anew(self) -> tuple[Pod, ...] | None:
        """The same, and what is known of the pods is now as of this list, which overtakes the watch."""
        if (pods := self.read()) is not None:
            self.agent_watch.take_list(self.api, len(self.log))
        return pods
