"""Says as Events what becomes of gangs."""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import Message, Subject
from accelet.runtime.clock import Clock
from accelet.runtime.logs import Log
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.gangs.placeholders import is_placeholder
from accelet.scheduler.placement.plan import Plan

_log = Log(__name__)

_TELL_EVERY_S = 10.0
"""A gang's reason for waiting changes with every node; people read only the last."""


class GangEvents:
    """Events on a gang's first pod and on its owner; `say` sends them."""

    def __init__(self, say: Callable[[Message], None], clock: Clock) -> None:
        self._say, self._clock = say, clock
        self._said: dict[GangKey, tuple[str, float]] = {}

    def tell_waiting(self, plans: Sequence[Plan]) -> float | None:
        """An event for each gang that must wait, when the reason has changed, and not all the time.

        Returns after how long a new reason may be told that may not be told yet.
        """
        again_s = []
        now_s = self._clock.now_s()
        for plan in plans:
            reason = plan.reason or ""
            said, told_s = self._said.get(plan.gang.key, ("", float("-inf")))
            if said == reason:
                continue
            if now_s - told_s < _TELL_EVERY_S:
                again_s.append(told_s + _TELL_EVERY_S - now_s)
                continue
            self._said[plan.gang.key] = reason, now_s
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
        self._said.pop(gang, None)

    def forget_all_but(self, gangs: Collection[GangKey]) -> None:
        for key in self._said.keys() - gangs:
            del self._said[key]
