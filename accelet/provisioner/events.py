"""Says as Events what becomes of slices, on the SliceRequest and on its owner."""

from collections.abc import Callable
from typing import Final, Literal

from accelet.kinds.slicerequest import SLICE_REQUESTS, Phase
from accelet.kube.recording.eventlog import Message, Subject
from accelet.provisioner.deciding.view import SliceRecord
from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.requests import OWNER_VERSIONS
from accelet.provisioner.pools.pool import ORIGINAL_MARK
from accelet.provisioner.record import SliceRequest

_MOST_NOTE: Final = 900
_REASONS: Final[dict[Phase, tuple[Literal["Normal", "Warning"], str]]] = {
    "Creating": ("Normal", "SliceCreating"),
    "Ready": ("Normal", "SliceReady"),
    "Repairing": ("Warning", "SliceLost"),
    "Failing": ("Warning", "SliceFailed"),
    "BackingOff": ("Warning", "SliceWaiting"),
    "Releasing": ("Normal", "SliceReleased"),
    "Parked": ("Normal", "SliceParked"),
    "Refused": ("Warning", "SliceRefused"),
}


class SliceEvents:
    """Events about slices; `say` sends them."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        self._say = say

    def tell(self, request: SliceRequest, before: SliceRecord, after: SliceRecord) -> None:
        """Tells of a change of phase that people care for, and of a new reason to wait."""
        self._tell_findings(request, before, after)
        kind, reason = _REASONS.get(after.phase, ("Warning", "SliceWaiting"))
        is_news = after.phase != before.phase and after.phase in _REASONS
        if after.mark and not before.mark:
            is_adopted = after.mark.startswith(ORIGINAL_MARK)
            kind, reason, is_news = "Normal", "SliceAdopted" if is_adopted else "SliceReused", True
        is_waiting = after.phase == "Pending" and bool(after.why) and after.why != before.why
        is_waiting = is_waiting and not after.asks_of
        if after.phase == "Creating" and after.refused_s and not before.refused_s:
            kind, reason, is_waiting = "Warning", "SliceWaiting", True
        if not (is_news or is_waiting):
            return
        note = f"{request.name}: {_note(after)}"[:_MOST_NOTE]
        for subject in _subjects(request):
            self._say(Message(subject, kind, reason, "Provision", note))

    def _tell_findings(self, request: SliceRequest, before: SliceRecord, after: SliceRecord) -> None:
        if bool(before.no_service) != bool(after.no_service) and after.phase == "Ready":
            found = f"{request.name}: the headless Service of its workers is there"
            self._say_finding(request, "ServiceMissing", after.no_service, "ServiceFound", found)
        if bool(before.drift) != bool(after.drift) and after.phase == "Ready":
            as_wanted = f"{request.name}: the pool is as it would be made now"
            self._say_finding(request, "SliceDrifted", after.drift, "SliceAsWanted", as_wanted)

        if bool(before.doubt) != bool(after.doubt):
            sound = f"{request.name}: the provider's list agrees with its machines again"
            self._say_finding(request, "PoolInDoubt", after.doubt, "PoolFound", sound)
        if bool(before.unused) != bool(after.unused) and after.phase == "Ready":
            in_use = f"{request.name}: a pod runs on it"
            self._say_finding(request, "SliceUnused", after.unused, "SliceUsed", in_use)
        if after.staying and not before.staying:
            self._say_finding(request, "PodsRemain", after.staying, "", "")
        if after.undeletable and not before.undeletable:
            self._say_finding(request, "DeleteRefused", after.undeletable, "", "")
        if after.slow and not before.slow:
            self._say_finding(request, "ProviderSlow", after.slow, "", "")
        if bool(before.silent) != bool(after.silent):
            again = f"{request.name}: the provider answers again"
            self._say_finding(request, "ProviderSilent", after.silent, "ProviderAnswers", again)

    def _say_finding(self, request: SliceRequest, reason: str, note: str, cleared: str, relief: str) -> None:
        """What is found, or that it is no more; of a template's slices the first tells the owner."""
        subjects = _subjects(request)
        if request.spec.owner is not None and request.spec.owner.index > 0:
            subjects = subjects[:1]
        for subject in subjects:
            if note:
                text = f"{request.name}: {note}"[:_MOST_NOTE]
                self._say(Message(subject, "Warning", reason, "Provision", text))
            else:
                self._say(Message(subject, "Normal", cleared, "Provision", relief[:_MOST_NOTE]))

    def refuse(self, owner: JobOwner, reason: str) -> None:
        """Tells an owner why its slices cannot be had."""
        subject = Subject(owner.kind, owner.name, owner.namespace, owner.uid, OWNER_VERSIONS[owner.kind])
        self._say(Message(subject, "Warning", "SliceRefused", "Provision", reason[:_MOST_NOTE]))


def _note(record: SliceRecord) -> str:
    if record.phase == "Creating":
        return f"pool {record.pool}, {record.why}"
    return record.why or f"the pool {record.pool} is whole"


def _subjects(request: SliceRequest) -> list[Subject]:
    api_version = SLICE_REQUESTS.api_version
    own = Subject(SLICE_REQUESTS.kind, request.name, request.namespace, request.uid, api_version)
    owner = request.spec.owner
    if owner is None:
        return [own]
    return [own, Subject(owner.kind, owner.name, request.namespace, owner.uid, owner.api_version)]
