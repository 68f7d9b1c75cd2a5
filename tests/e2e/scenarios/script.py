"""What a scenario of this folder may say: steps of the kubelet's own format, and what its plugins do."""

from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from accelet.fakekubelet.scenario.format import Admit, Step


class _Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Serve(_Act, frozen=True):
    """A plugin serves on a socket of its name and registers.

    `refuse_options` and `fail_list` are errors it answers with instead. `claims_pre_start` is in its
    registration only, where the kubelet must not look. With `follow` it is back whenever kubelet.sock is new.
    `numa` is the node of each device, -1 where it names none.
    """

    plugin: str
    resource: str
    devices: int = 2
    prefers: bool = False
    pre_start: bool = False
    claims_pre_start: bool = False
    refuse_options: str | None = None
    fail_list: str | None = None
    id_length: int = 0
    follow: bool = False
    numa: tuple[int, ...] = ()


class Lists(_Act, frozen=True):
    """A plugin sends another list of so many devices; the first `unhealthy` of them are not well."""

    plugin: str
    devices: int
    unhealthy: int = 0


class Behave(_Act, frozen=True):
    """How a plugin answers a call from now on, or `times` times: an error, nothing at all, these, or late."""

    plugin: str
    call: Literal["allocate", "prefer", "pre_start"]
    error: str | None = None
    empty: bool = False
    hang: bool = False
    answer: tuple[str, ...] | None = None
    times: int | None = None


class OnPlugin(_Act, frozen=True):
    """A plugin."""

    plugin: str


class Asked(OnPlugin, frozen=True):
    """Waits until so many calls hang at the plugin."""

    times: int = 1


class Register(_Act, frozen=True):
    """A bare call of Register, for a socket that nobody has made or one that somebody serves on."""

    resource: str
    version: str = "v1beta1"
    endpoint: str = "nobody.sock"


class Look(_Act, frozen=True):
    """Writes down what the kubelet shows; `podresources` has a side effect on real ones: it frees devices."""

    folder: bool = False
    checkpoint: bool = True
    podresources: bool = False
    get: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


class Fate(_Act, frozen=True):
    """Waits for what becomes of a pod that is there."""

    pod: str
    expect: Literal["running", "rejected", "waiting", "any"]


class Outlives(_Act, frozen=True):
    """Waits until the pod is decided about or the kubelet has crashed, and says which of it."""

    pod: str


class Nothing(_Act, frozen=True):
    """There is nothing to say about it."""


class Act(_Act, frozen=True):
    """Exactly one of these.

    `litter` puts all kinds of files into the plugin folder, `spoil` makes the checkpoint unreadable, `watch`
    notes what inotify tells until `watched`, and `burst` calls podresources very often at once.
    """

    serve: Serve | None = None
    lists: Lists | None = None
    behave: Behave | None = None
    release: OnPlugin | None = None
    close: OnPlugin | None = None
    register: Register | None = None
    litter: Nothing | None = None
    spoil: Nothing | None = None
    watch: Nothing | None = None
    watched: Nothing | None = None
    burst: Nothing | None = None
    look: Look | None = None
    bind: Admit | None = None
    asked: Asked | None = None
    ended: OnPlugin | None = None
    fate: Fate | None = None
    outlives: Outlives | None = None

    @property
    def name(self) -> str:
        return next(name for name in self.__struct_fields__ if getattr(self, name) is not None)

    @property
    def action(self) -> Any:
        return getattr(self, self.name)


def read_script(path: Path) -> list[tuple[str, Act | Step]]:
    """Each step with the line that stands over it in the transcript."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [(_heading(step), _step(step)) for step in document["steps"]]


def _step(step: dict[str, Any]) -> Act | Step:
    (name,) = step
    if name in Act.__struct_fields__:
        return msgspec.convert(step, Act)
    return msgspec.convert(step, Step)


def _heading(step: dict[str, Any]) -> str:
    return yaml.safe_dump(step, default_flow_style=True, sort_keys=False, width=10_000).strip()
