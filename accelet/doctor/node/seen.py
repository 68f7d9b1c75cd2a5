"""What was seen on a node, as values; `None` or a sentence says that something could not be seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

FolderState = Literal["there", "absent", "closed", "dead"]
"""`closed`: this process may not look into it; `dead`: removed on the host while it is mounted here."""

SocketState = Literal["answers", "absent", "silent", "closed", "no socket"]
"""`silent`: nobody accepts connections; `closed`: this process may not connect."""

_NO_IDS: Mapping[str, frozenset[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FolderSeen:
    """`moves` is whether the kubelet has it in its --root-dir."""

    path: str
    state: FolderState
    moves: bool = True


@dataclass(frozen=True, slots=True)
class SocketSeen:
    path: str
    state: SocketState


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """What the kubelet says: healthy devices by resource. `problem` is why it does not."""

    devices: Mapping[str, frozenset[str]] = field(default_factory=lambda: _NO_IDS)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ResourceSeen:
    """One resource of the configuration: the ids this node's hardware has under that name.

    `unknown_memory` are its cards whose memory is not known, where pods may ask for some.
    """

    name: str
    is_plugin: bool = True
    healthy: frozenset[str] = frozenset()
    unhealthy: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""
    unknown_memory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOutSeen:
    """Hardware of the node that no resource serves: where it is, a stable code, and why."""

    path: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigurationSeen:
    """`mistakes` are sentences with file and line; without any, `resources` are what is configured.

    `warnings` name what is written and means nothing. `left_out` is what no resource serves.
    """

    path: str
    mistakes: tuple[str, ...] = ()
    resources: tuple[ResourceSeen, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: tuple[LeftOutSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadinessLine:
    """One line of the agent's /readyz?verbose."""

    name: str
    is_ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """What the agent says of itself at `address`. `ends` counts ended registrations by resource and cause.

    `is_running` is whether some process holds the lock of the kubelet's directory, as an agent does.
    """

    address: str
    is_running: bool = False
    lines: tuple[ReadinessLine, ...] = ()
    ends: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    has_newest_configuration: bool | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RightSeen:
    """Whether this process' account may do what the configuration has it do; None where nobody says."""

    right: str
    purpose: str
    is_given: bool | None


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """What the API server says to the agent's account. `ahead_s` is our clock less the server's.

    `is_wanted` is whether the configuration needs it at all.
    """

    is_wanted: bool = False
    problem: str = ""
    ahead_s: float | None = None
    rights: tuple[RightSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """Everything that was looked at on one node."""

    name: str
    folders: tuple[FolderSeen, ...]
    kubelet_socket: SocketSeen
    other_sockets: tuple[SocketSeen, ...]
    checkpoint: RecordsSeen
    pod_resources: RecordsSeen
    configuration: ConfigurationSeen
    agent: AgentSeen
    server: ServerSeen = ServerSeen()
