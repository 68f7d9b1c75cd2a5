"""All verdicts on a cluster."""

from collections.abc import Iterator

from accelet.doctor.cluster.network import judge_network
from accelet.doctor.cluster.nodes import judge_nodes
from accelet.doctor.cluster.policies import judge_policies
from accelet.doctor.cluster.processes import judge_processes
from accelet.doctor.cluster.seen import ClusterSeen
from accelet.doctor.cluster.waiting import judge_pods
from accelet.doctor.findings import Finding, Verdict, judge, quoted


def judge_cluster(seen: ClusterSeen) -> tuple[Verdict, ...]:
    return (
        judge("seen", "" if seen.unseen else "everything could be looked at", _unseen(seen)),
        *judge_processes(seen),
        *judge_policies(seen),
        *judge_nodes(seen),
        judge_network(seen),
        *judge_pods(seen),
    )


def judge_nothing(problem: str) -> tuple[Verdict, ...]:
    """Where there is no way to the API server."""
    cure = "Give --kubeconfig FILE and --context NAME, and see that `kubectl get nodes` works with it."
    finding = Finding("unseen", "API server", "it cannot be asked", cure, quoted(problem))
    return (judge("seen", "", [finding]),)


def _unseen(seen: ClusterSeen) -> Iterator[Finding]:
    for kind, problem in sorted(seen.unseen.items()):
        cure = f"Give whoever runs this the right to list {kind}."
        yield Finding("unseen", kind, "these could not be looked at", cure, quoted(problem))
