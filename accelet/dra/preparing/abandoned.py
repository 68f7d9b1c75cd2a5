"""Which allocations are given up without Unprepare, by what the API server and the kubelet show.

An Unprepare may never come: the pod was deleted by force, or the kubelet lost its record.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from accelet.dra.preparing.entry import Entry, EntryKey
from accelet.kubelet.podresources import PodRecord

Verdict = Literal["current", "outdated", "gone", "unknown"]
"""What the API server has: this allocation, another or none for the claim, no such claim; or no answer."""

LOOKS_TO_FORGET: Final = 2
"""So many looks in a row must show that nobody has it: the kubelet may still end its containers."""


def find_used(entries: Iterable[Entry], shown: Collection[PodRecord]) -> frozenset[EntryKey] | None:
    """The allocations that containers have by what the kubelet shows; None where it shows no pod at all.

    It shows none just after its start. A claim without CDI devices may be any allocation of its name.
    """
    if not shown:
        return None
    claims = [claim for pod in shown for container in pod.containers for claim in container.claims]
    ids = frozenset(one for claim in claims for one in claim.cdi_ids)
    unsure = {(claim.namespace, claim.name) for claim in claims if not claim.cdi_ids}
    return frozenset(
        entry.key
        for entry in entries
        if (entry.namespace, entry.name) in unsure
        or not ids.isdisjoint(one for answer in entry.answers for one in answer.cdi_ids)
    )


def count_looks(
    before: Mapping[EntryKey, int],
    verdicts: Mapping[EntryKey, Verdict],
    used: Collection[EntryKey] | None,
) -> Mapping[EntryKey, int]:
    """How many looks in a row, this one included, showed of each allocation that nobody has it.

    `used` are those that containers have, None where that cannot be told: such a look shows nothing.
    """
    return MappingProxyType(
        {
            key: before.get(key, 0) + 1
            for key, verdict in verdicts.items()
            if verdict in ("outdated", "gone") and used is not None and key not in used
        }
    )


def find_abandoned(looks: Mapping[EntryKey, int]) -> frozenset[EntryKey]:
    """The allocations that are given up now."""
    return frozenset(key for key, count in looks.items() if count >= LOOKS_TO_FORGET)


def explain_kept(verdict: Verdict, *, is_used: bool | None) -> str | None:
    """Why a person should not undo an allocation by hand; None where nobody has it by now.

    `is_used` is what the kubelet shows of containers that have it, None where it cannot be told.
    """
    if verdict == "current":
        return "the claim is allocated so: delete the pods that use it, and the kubelet unprepares it"
    if verdict == "unknown":
        return "the API server does not say whether the claim is allocated so"
    if is_used is None:
        return "the kubelet does not say whether a container has it"
    return "a container on this node has it" if is_used else None
