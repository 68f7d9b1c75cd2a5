"""Judges whether nodes say where they are in the network, as the scheduler reads it."""

from collections.abc import Iterator, Mapping

from accelet.doctor.cluster.seen import ClusterSeen
from accelet.doctor.findings import Finding, Verdict, judge, several
from accelet.scheduler.cluster.topology import PRESETS

FEWEST_NODES = 2
"""Of one node there is nothing to be said."""


def judge_network(seen: ClusterSeen) -> Verdict:
    """A note where no node says so; nothing where there is no scheduler. Some nodes without are no fault."""
    labels = [one.node.labels for one in seen.machines]
    if not seen.label_sets or len(labels) < FEWEST_NODES:
        return judge("topology", "", ())
    placed = sum(_is_placed(each, seen.label_sets) for each in labels)
    if placed:
        fine = f"{placed:,} of {several(len(labels), 'node')} say where they are in the network"
        return judge("topology", fine, ())
    return judge("topology", "", _nowhere(labels))


def _nowhere(labels: list[Mapping[str, str]]) -> Iterator[Finding]:
    counts = {
        name: sum(_is_placed(each, scheme.label_sets) for each in labels) for name, scheme in PRESETS.items()
    }
    best = max(counts, key=lambda name: counts[name])
    if counts[best]:
        those = f"{several(counts[best], 'node')} {'has' if counts[best] == 1 else 'have'} those"
        reason = f"no node has the labels that the scheduler reads; {those} of the topology {best}"
        cure = f"Set `topology: {best}` in the scheduler's configuration (docs/scheduler.md, Run it)."
    else:
        reason = "no node has topology labels: gangs are placed by chance"
        cure = (
            "Have your cloud or topograph write them, or write your own (docs/scheduler.md, Where a node is)."
        )
    yield Finding("note", "nodes", reason, cure)


def _is_placed(labels: Mapping[str, str], label_sets: tuple[tuple[str, ...], ...]) -> bool:
    return any(all(labels.get(label) for label in wanted) for wanted in label_sets)
