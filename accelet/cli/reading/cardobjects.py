"""What says who holds which card: nodes, pods and plans; slices and claims of those served through DRA."""

from dataclasses import dataclass, field

from accelet.dra.preparing.claim import AllocatedClaim
from accelet.dra.publishing.published import PublishedSlice
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.cards.lingering import LingeringPod
from accelet.scheduler.record import Record


@dataclass(frozen=True, slots=True)
class CardObjects:
    """The objects that could be read; `notes` are sentences about those that could not.

    `lingering` are pods deleted by force that the scheduler counts as holders, where it was asked.
    """

    nodes: list[Node]
    pods: list[Pod]
    plans: list[Record]
    notes: list[str] = field(default_factory=list)
    lingering: tuple[LingeringPod, ...] = ()
    slices: list[PublishedSlice] = field(default_factory=list)
    claims: list[AllocatedClaim] = field(default_factory=list)
