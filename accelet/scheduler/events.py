"""Says as Events what becomes of gangs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import EventLimits, Message, Subject
from accelet.runtime.clock import Clock
from accelet.runtime.logs import Log
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.gangs.placeholders import is_placeholder
from accelet.scheduler.placement.plan import Plan

_log = Log(__name__)

_TELL_EVERY_S, _SOON = 10.0, 3
_TELL_LATER_S = 1 / EventLimits().per_s_each
"""A gang's reason for waiting changes with every node; people read only the last.

After so many changes no more is told than is sent of one object: what is told faster is sent ever later,
and whatever follows, that the gang is placed, comes after it.
"""


@dataclass(frozen=True, slots=True)
class _Told:
    """Why a gang waits as it was told last, and how often it was told before."""

    reason: str
    at_s: float
    before: int

    @property
    def again_s(self) -> float:
        """When another reason may be told."""
        return self.at_s + (_TELL_EVERY_S if self.before < _SOON else _TELL_LATER_S)


class GangEvents:
    """Events on a gang's first pod and on its owner; `say` sends them."""

    def __init__(self, say: Callable[[Message], None], clock: Clock) -> None:
        self._say, self._clock = say, clock
        self._told: dict[GangKey, _Told] = {}

    def tell_waiting(self, plans: Sequence[Plan]) -> float | None:
        """An event for each gang that must wait, when the reason has changed, and not all the time.

        Returns after how long a new reason may be told that may not be told yet.
        """
        again_s = []
        now_s = self._clock.now_s()
        for plan in plans:
            reason = plan.reason or ""
            told = self._told.get(plan.gang.key)
            if told and told.reason == reason:
                continue
            if told and now_s < told.again_s:
                again_s.append(told.again_s - now_s)
                continue
            self._told[plan.gang.key] = _Told(reason, now_s, told.before + 1 if told else 0)
            _log.info("waiting", gang=str(plan.gang.key), reason=reason)
            self.tell(plan.gang.pods[0], "Warning", "Waiting", f"waiting: {reason}")
        return min(again_s, default=None)

    def tell(self, pod: Pod, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """An event on a gang's pod, if it is there, and on its owner."""
        owners = (
            Subject(owner.kind, owner.name, pod.namespace, owner.uid, owner.api_version)
            for owner in pod.owners
            if owner.is_controller
        )
        pods = () if is_placeholder(pod) else (Subject.of_pod(pod),)
        for subject in (*pods, *owners):
            self._say(Message(subject, kind, reason, "Place", note))

    def forget(self, gang: GangKey) -> None:
        """The gang waits no more: should it wait again, that is news."""
        self._told.pop(gang, None)

    def forget_all_but(self, gangs: Collection[GangKey]) -> None:
        for key in self._told.keys() - gangs:
            del self._told[key]
