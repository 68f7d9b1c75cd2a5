"""Judges what of accelet runs in a cluster: its processes, who leads, what they may do and are told to do."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from accelet.doctor.cluster.objects import COMPONENT, PART_OF
from accelet.doctor.cluster.seen import ClusterSeen, LeaseSeen, PodSeen, ProcessSeen
from accelet.doctor.findings import Finding, Verdict, judge, quoted, several

LATE_S = 10.0
"""So much longer than it says a lease is let run before nobody is taken to lead: clocks differ."""

MOST_RIGHTS = 8
"""So many are named of those that an account lacks for one purpose."""

OTHER_PLUGINS = {
    "intel-gpu-plugin": "gpu.intel.com/",
    "tpu-device-plugin": "google.com/tpu",
    "nvidia/k8s-device-plugin": "nvidia.com/",
    "rocm/k8s-device-plugin": "amd.com/",
}
"""Device plugins by the last parts of their image's name, and the names that they serve."""

_OPERATORS = {
    "nvidia/k8s-device-plugin": " NVIDIA's GPU Operator leaves a node alone that has the label "
    "nvidia.com/gpu.deploy.device-plugin=false."
}

_LEADING = ("scheduler", "provisioner")
_PULLING = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def judge_processes(seen: ClusterSeen) -> Sequence[Verdict]:
    names = ", ".join(f"{one.name} {one.ready} of {one.wanted}" for one in seen.processes)
    leaders = [f"{name}: {lease.holder}" for name, lease in seen.leases.items() if lease and lease.holder]
    given = sum(right.is_given is True for right in seen.rights)
    return (
        judge("installed", f"ready: {names}" if names else "", _installed(seen)),
        judge("leading", f"leads: {', '.join(map(quoted, leaders))}" if leaders else "", _leading(seen)),
        judge(
            "rights", f"{several(given, 'right')} of the processes' accounts" if given else "", _rights(seen)
        ),
        judge("configuration", _configuration_fine(seen), _configuration(seen)),
        judge(
            "one-plugin", "no node has two plugins for one resource" if seen.configs else "", _plugins(seen)
        ),
    )


def _installed(seen: ClusterSeen) -> Iterator[Finding]:
    if not seen.processes and "daemonsets" not in seen.unseen:
        cure = "Install it: docs/operating.md, Install."
        yield Finding("wrong", "accelet", "nothing of accelet is installed in this cluster", cure)
    for process in seen.processes:
        about = str(process)
        if process.wanted == 0 and process.kind == "Deployment":
            cure = f"kubectl -n {process.namespace} scale deployment/{process.name} --replicas=2"
            yield Finding("wrong", about, "it is scaled to 0", cure)
        elif process.wanted == 0:
            cure = "See its nodeSelector, and the labels of the nodes that have accelerators."
            yield Finding("wrong", about, "it is for no node of this cluster", cure)
        elif process.ready < process.wanted:
            reason = f"{several(process.ready, 'pod')} of {process.wanted:,} ready"
            yield Finding("wrong", about, reason, _cure(process, seen), _stuck(process, seen))


def _own(process: ProcessSeen, seen: ClusterSeen) -> Iterator[PodSeen]:
    for one in seen.pods:
        labels = one.pod.labels
        is_ours = (labels.get(PART_OF), labels.get(COMPONENT)) == ("accelet", process.component)
        if is_ours and one.pod.namespace == process.namespace:
            yield one


def _stuck(process: ProcessSeen, seen: ClusterSeen) -> str:
    words = {
        word for one in _own(process, seen) for word in (*one.stuck, one.reason, one.unscheduled) if word
    }
    return quoted("; ".join(sorted(words)))


def _cure(process: ProcessSeen, seen: ClusterSeen) -> str:
    if any(word in _PULLING for one in _own(process, seen) for word in one.stuck):
        return "Put the image where the nodes can pull it, and name it there: `kubectl set image`."
    where = f"-n {process.namespace} -l {COMPONENT}={process.component}"
    return f"See `kubectl get pods {where} -o wide` and `kubectl logs {where} --tail=20`."


def _leading(seen: ClusterSeen) -> Iterator[Finding]:
    for component in _LEADING:
        for process in seen.of(component):
            lease = seen.leases.get(component)
            if process.wanted == 0:
                continue
            if (reason := _why_nobody(lease, seen.now_s)) is not None:
                yield Finding("wrong", str(process), reason, _cure(process, seen))


def _why_nobody(lease: LeaseSeen | None, now_s: float) -> str | None:
    if lease is None:
        return "it has never led: there is no lease"
    if not lease.holder:
        return "nobody leads: the lease was given back, and nobody has taken it"
    if lease.renewed_s is None or now_s - lease.renewed_s > lease.duration_s + LATE_S:
        return "nobody leads: the lease has run out"
    return None


def _rights(seen: ClusterSeen) -> Iterator[Finding]:
    """One finding for all that an account lacks for one purpose: a role or a binding is missing."""
    missing: dict[tuple[str, str], list[str]] = {}
    unsaid: dict[str, list[str]] = {}
    for one in seen.rights:
        account = one.process.user.removeprefix("system:serviceaccount:")
        if one.is_given is None:
            unsaid.setdefault(account, []).append(str(one.right))
        elif not one.is_given:
            missing.setdefault((account, one.purpose), []).append(str(one.right))
    for account, rights in unsaid.items():
        cure = "Give whoever runs this the right to create subjectaccessreviews.authorization.k8s.io."
        about = f"{account}: {_listed(rights)}"
        yield Finding("unseen", about, "the API server does not say whether this is allowed", cure)
    for (account, purpose), rights in missing.items():
        cure = f"Apply the roles and bindings of the part for {purpose} again."
        yield Finding(
            "wrong", f"{account}: {_listed(rights)}", f"not allowed, but needed for {purpose}", cure
        )


def _listed(rights: Sequence[str]) -> str:
    shown = list(dict.fromkeys(rights))
    more = f" and {len(shown) - MOST_RIGHTS} more" if len(shown) > MOST_RIGHTS else ""
    return ", ".join(shown[:MOST_RIGHTS]) + more


def _configuration_fine(seen: ClusterSeen) -> str:
    return f"{several(len(seen.configs), 'configuration')} of agents understood" if seen.configs else ""


def _configuration(seen: ClusterSeen) -> Iterator[Finding]:
    for config in seen.configs:
        process = config.process
        for mistake in config.mistakes:
            about = f"ConfigMap {process.namespace}/{process.config_map}"
            cure = "Mend it (docs/configuration.md); agents that run keep to the last good one until then."
            yield Finding("wrong", about, "the agents' configuration has a mistake", cure, quoted(mistake))
        if config.needs and not process.account:
            cure = "Apply deploy/agent-assignments, which gives its pods an account and its token."
            yield Finding(
                "wrong", str(process), "its configuration needs the API server, its pods have no token", cure
            )


def _plugins(seen: ClusterSeen) -> Iterator[Finding]:
    agents: defaultdict[str, set[str]] = defaultdict(set)
    others: defaultdict[str, set[str]] = defaultdict(set)
    for one in seen.pods:
        node, labels = one.pod.node_name, one.pod.labels
        if node is None or one.pod.is_terminal or one.pod.deleted_s is not None:
            continue
        if (labels.get(PART_OF), labels.get(COMPONENT)) == ("accelet", "agent"):
            agents[node].add(next((owner.name for owner in one.pod.owners), one.pod.name))
        for image in one.images:
            others[node].update(name for name in OTHER_PLUGINS if _is_of(image, name))
    served = [name for config in seen.configs for name in config.resources]
    for node, owners in sorted(agents.items()):
        if len(owners) > 1:
            reason = f"{several(len(owners), 'agent')} are on this node: {', '.join(sorted(owners))}"
            yield Finding("wrong", node, reason, "Let one DaemonSet alone choose this node: nodeSelector.")
        for other in sorted(others[node]):
            if any(name.startswith(OTHER_PLUGINS[other]) for name in served):
                reason = f"{other} serves {OTHER_PLUGINS[other].rstrip('/')} here, and so does the agent"
                cure = "Remove one of both (docs/operating.md, Coming from another plugin)."
                cure += _OPERATORS.get(other, "")
                yield Finding("wrong", node, reason, cure)


def _is_of(image: str, plugin: str) -> bool:
    """Whether an image is that of a plugin; ROCm's labeller is a tag of its plugin's image."""
    path, slash, last = image.partition("@")[0].rpartition("/")
    name, _, tag = last.partition(":")
    return f"/{path}{slash}{name}".endswith(f"/{plugin}") and not tag.startswith("labeller")
