"""What the answer to a call tells of the kubelet's admissions."""

from collections.abc import Set

from accelet.kube.poduid import PodUid
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.inquiry import Match, NoProof


def note_answer(
    admissions: Admissions, step: Match | NoProof, *, is_refused: bool, known: Set[PodUid]
) -> Admissions:
    """What is remembered after a call. An admission that was refused is over.

    For a container that starts again the kubelet goes on asking, and a call that is not proven to be for a
    pod turns nobody in particular away. Pods that are not `known` any more are forgotten.
    """
    if isinstance(step, NoProof):
        if not is_refused or step.former is None:
            return admissions
        return admissions.turn_away(step.former, known)
    if not step.proof.is_exact or admissions.are_over_for(step.pod):
        return admissions
    after = admissions.came_to(step.owner.pod_uid)
    return after.turn_away(step.owner.pod_uid, known) if is_refused else after
