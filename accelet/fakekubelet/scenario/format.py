"""What a scenario file may say: one action a step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from accelet.fakekubelet.pods import Container, Pod, a_container, a_pod
from accelet.runtime.settings import Contradiction, Mistake, Reader, SettingsError

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Limits = dict[str, Count]


class _Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ContainerSpec(_Action, frozen=True):
    """A container. `sidecar` makes an init container one that stays."""

    name: Name
    limits: Limits = {}
    sidecar: bool = False
    numa_affinity: tuple[Count, ...] | None = None


_KNOWN_OF_A_RESOURCE: Final = (
    "healthy",
    "unhealthy",
    "capacity",
    "allocatable",
    "connected",
    "registrations",
)


class Wait(_Action, frozen=True):
    """Waits until the kubelet knows the resource so; what is left out does not matter.

    A plugin may register more often than it must: there are at least so many `registrations`; none with 0.
    """

    resource: Name
    healthy: Count | None = None
    unhealthy: Count | None = None
    capacity: Count | None = None
    allocatable: Count | None = None
    connected: bool | None = None
    registrations: Count | None = None
    within_s: Seconds = 10.0

    @property
    def wanted(self) -> Mapping[str, int | bool]:
        """What is asked for, by the name of the field; empty if nothing is."""
        asked = {name: getattr(self, name) for name in _KNOWN_OF_A_RESOURCE}
        return {name: value for name, value in asked.items() if value is not None}

    def holds(self, known: Mapping[str, int | bool]) -> bool:
        """Whether all of `wanted` is so, by what is `known` under the same names."""
        return all(
            known[name] >= value if name == "registrations" and value else known[name] == value
            for name, value in self.wanted.items()
        )


class Admit(_Action, frozen=True):
    """Binds a pod to the node and waits for what becomes of it.

    `expect` is what should: `running`, `rejected`, `waiting` (a container cannot be made now), or `any`.
    `message` has to be part of the rejection, or of why the container waits.
    """

    pod: Name
    namespace: Name = "default"
    limits: Limits = {}
    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    created_at: Count = 0
    expect: Literal["running", "rejected", "waiting", "any"] = "running"
    message: str | None = None
    within_s: Seconds = 30.0

    def problems(self) -> list[Contradiction]:
        names = [each.name for each in (*self.init_containers, *self.containers)]
        if self.limits and self.containers:
            return [
                Contradiction(("limits",), "is for a pod with one container; give it with the containers")
            ]
        if len(set(names)) != len(names):
            return [Contradiction(("containers",), "have the same name twice")]
        return []

    def as_pod(self) -> Pod:
        """The pod to bind."""
        containers = [_container(each) for each in self.containers] or [a_container("main", self.limits)]
        init = [_container(each) for each in self.init_containers]
        return a_pod(
            self.pod, self.namespace, containers=containers, init_containers=init, created_at=self.created_at
        )


class OnPod(_Action, frozen=True):
    """A pod that was admitted before."""

    pod: Name
    namespace: Name = "default"


class OnContainer(OnPod, frozen=True):
    """One of its containers. `expect` is what should become of it."""

    container: Name = "main"
    expect: Literal["running", "waiting", "any"] = "running"


class Begin(_Action, frozen=True):
    """A kubelet begins; its first list of pods comes so many seconds later."""

    pods_after_s: Seconds = 0.0


class Nothing(_Action, frozen=True):
    """There is nothing to say about it."""


class OnResource(_Action, frozen=True):
    """A resource."""

    resource: Name


class Fault(_Action, frozen=True):
    """From now on a service of the kubelet refuses with a text, answers late, or never; `times` calls."""

    service: Literal["register", "podresources"]
    refuse: str | None = None
    late_s: Seconds | None = None
    hang: bool = False
    times: Annotated[int, Meta(ge=1)] | None = None

    def problems(self) -> list[Contradiction]:
        if sum((self.refuse is not None, self.late_s is not None, self.hang)) != 1:
            return [Contradiction((), "give one of refuse, late_s and hang")]
        return []


class Lift(_Action, frozen=True):
    """The service answers again."""

    service: Literal["register", "podresources"]


class Switch(_Action, frozen=True):
    """Switched on, or off again."""

    enabled: bool = True


class Pause(_Action, frozen=True):
    """Lets time pass."""

    seconds: Seconds


class Step(_Action, frozen=True):
    """One action: exactly one of these keys."""

    wait: Wait | None = None
    admit: Admit | None = None
    remove: OnPod | None = None
    terminate: OnPod | None = None
    finish: OnPod | None = None
    restart_container: OnContainer | None = None
    restart_kubelet: Begin | None = None
    stop_kubelet: Nothing | None = None
    start_kubelet: Begin | None = None
    reboot: Begin | None = None
    replace_kubelet: Nothing | None = None
    replace_folder: Nothing | None = None
    drop_socket: Nothing | None = None
    cut_stream: OnResource | None = None
    fault: Fault | None = None
    lift: Lift | None = None
    full_disk: Switch | None = None
    unknown_fields: Switch | None = None
    pause: Pause | None = None

    def problems(self) -> list[Contradiction]:
        given = self._given()
        if len(given) == 1:
            return []
        return [Contradiction((), f"a step is one action, not {', '.join(given) or 'none'}")]

    def _given(self) -> list[str]:
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    @property
    def name(self) -> str:
        return self._given()[0]

    @property
    def action(self) -> Any:
        """What its one key holds; an object of the type that the key has above."""
        return getattr(self, self.name)


class Scenario(_Action, frozen=True):
    """A scenario: which kubelet, and what happens to it."""

    version: Literal["v1"]
    steps: tuple[Step, ...]
    kubelet: str = "1.36"
    seed: Count | None = None


def _container(spec: ContainerSpec) -> Container:
    return a_container(
        spec.name,
        spec.limits,
        restart_policy="Always" if spec.sidecar else None,
        numa_affinity=spec.numa_affinity,
    )


def read_scenario(path: Path) -> Scenario:
    """The scenario in a YAML file.

    Raises:
        SettingsError: it has mistakes; all of them, each with its line.
        OSError: it cannot be read.
    """
    reader = Reader(str(path))
    node = reader.parse(path.read_text(encoding="utf-8"))
    if node is None and not reader.problems:
        reader.problems.append(Mistake(str(path), 1, "", "the file is empty"))
    scenario = reader.read(node, Scenario) if node is not None else None
    if reader.problems or not isinstance(scenario, Scenario):
        raise SettingsError(reader.problems)
    return scenario


def schema() -> dict[str, Any]:
    """The format as a JSON schema."""
    (_,), parts = msgspec.json.schema_components([Scenario], ref_template="#/$defs/{name}")
    # That a step has one key is not in its type.
    parts["Step"] |= {"minProperties": 1, "maxProperties": 1}
    root = parts.pop("Scenario")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario for accelet fake-kubelet",
        **{key: value for key, value in root.items() if key != "title"},
        "$defs": parts,
    }
