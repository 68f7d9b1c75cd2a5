"""Judges the agent's side of a node: its configuration, its resources, what it may do, its clock."""

import re
from collections.abc import Iterator, Mapping, Sequence

from accelet.doctor.findings import Finding, Level, Verdict, judge, quoted, several
from accelet.doctor.node.seen import ConfigurationSeen, NodeSeen, ReadinessLine, ResourceSeen, ServerSeen

MOST_AHEAD_S = 5.0
"""Clocks further apart than this are wrong; the API server tells whole seconds."""

NO_AGENT = "no agent serves this node"

WAITS_FOR_KUBELET = (
    "waiting for the kubelet",
    "there is no kubelet.sock yet",
    "the kubelet is not running",
    "the kubelet does not answer",
    "the kubelet ended",
)
"""How lines of /readyz begin that a kubelet which does not run explains."""

_SINCE = re.compile(r" for \d+ s$")
"""How long it has been so, which differs from line to line."""

UNSTABLE_ENDS = 5
"""So many registrations of one resource do not end by chance: another plugin takes it each time."""

_TWO_PLUGINS = (
    "Let one plugin alone serve this resource on the node: remove the other one's DaemonSet, or give the "
    "resource of either another name. Drain the node first (docs/operating.md, Coming from another plugin)."
)
_SOCKETS = (
    (re.compile(r"nvidia-(gpu|mig-).*\.sock"), "nvidia.com/", "NVIDIA's"),
    (re.compile(r"amd\.com_.+"), "amd.com/", "ROCm's"),
    (re.compile(r"gpu\.intel\.com-.*\.sock"), "gpu.intel.com/", "Intel's"),
)
"""Sockets of vendors' plugins in the kubelet's folder, and the names that they serve."""

_LEFT_OUT: Mapping[str, tuple[Level, str]] = {
    "no-cdi-name": (
        "wrong",
        (
            "Install NVIDIA's Container Toolkit on the node, or run `nvidia-ctk cdi generate`; or set "
            "inject: envvar where NVIDIA's runtime is the default one."
        ),
    ),
    "stale-cdi": (
        "wrong",
        (
            "Run `nvidia-ctk cdi generate` again, as after each change of MIG instances: the service of the "
            "toolkit does not notice one."
        ),
    ),
    "no-uuid": ("wrong", "Run nvidia-persistenced on the node: it opens each GPU at start."),
    "no-device-node": ("wrong", "See the kernel's log; the reason names the node that is missing."),
    "no-kfd": ("wrong", "Load amdgpu with KFD (CONFIG_HSA_AMD): programs compute by /dev/kfd alone."),
    "no-kfd-node": ("wrong", "See the kernel's log: KFD refused this GPU."),
    "hidden-by-kfd": ("wrong", "Run the agent privileged: privileged.patch.yaml of deploy/agent-amd."),
    "mode-unclear": ("wrong", "Set the compute partition again, with `amd-smi`."),
    "partitioned": ("note", "Add a resource with unit: mig (docs/backends.md, MIG instances)."),
    "no-compute-instance": ("note", "Run `nvidia-smi mig -cci`, or remove the GPU instance."),
    "shared-instance": ("note", "Give each GPU instance one compute instance."),
    "duplicate-unit": ("wrong", "See docs/backends.md: two accelerators say the same of themselves."),
}
"""By code, what is left out and can be mended."""

_CURES = (
    ("another agent serves this node", "Find the second agent: two DaemonSets, or one beside a service?"),
    ("waiting for the kubelet's directory", "Start the kubelet, and see that its folder is mounted."),
    (
        "waiting for the kubelet to find",
        "Give the kubelet's --root-dir as --kubelet-root-dir (docs/distributions.md).",
    ),
    ("there is no kubelet.sock yet", "Start the kubelet; the agent registers as soon as it is there."),
    ("the kubelet does not answer", "Start the kubelet again."),
    ("the kubelet did not answer", "Look at the kubelet's log: it hangs."),
    ("the kubelet refused", "The kubelet's own words say why; mostly a name that it does not take."),
    ("the kubelet ended ListAndWatch", _TWO_PLUGINS),
    ("no socket can be made", "Free space on the kubelet's file system."),
    ("the labels of its Node", "Apply deploy/agent-tpu: the agent needs to read its Node."),
)


def judge_agent(seen: NodeSeen) -> Sequence[Verdict]:
    return (
        judge("configuration", _configuration_fine(seen.configuration), _configuration(seen)),
        judge("agent", _agent_fine(seen), _readiness(seen)),
        judge("devices", _devices_fine(seen.configuration), _devices(seen.configuration.resources)),
        judge("left-out", _left_out_fine(seen.configuration), _left_out(seen.configuration)),
        judge("one-plugin", _one_plugin_fine(seen), _one_plugin(seen)),
        judge("rights", _rights_fine(seen.server), _rights(seen)),
        judge("clock", _clock_fine(seen.server), _clock(seen.server)),
    )


def _configuration_fine(seen: ConfigurationSeen) -> str:
    if seen.mistakes:
        return ""
    return f"{seen.path} is understood: {several(len(seen.resources), 'resource')}"


def _agent_fine(seen: NodeSeen) -> str:
    return "" if seen.agent.problem else f"the agent at {seen.agent.address} is ready"


def _one_plugin_fine(seen: NodeSeen) -> str:
    if seen.pod_resources.problem and seen.checkpoint.problem:
        return ""
    return "no other plugin serves a resource of this configuration"


def _configuration(seen: NodeSeen) -> Iterator[Finding]:
    for mistake in seen.configuration.mistakes:
        yield Finding(
            "wrong",
            seen.configuration.path,
            "the configuration has a mistake; an agent that runs keeps to the last good one",
            "Mend it (docs/configuration.md); a running agent takes it over by itself.",
            quoted(mistake),
        )
    for warning in seen.configuration.warnings:
        reason = "a key of it means nothing to accelet"
        cure = "Remove it, or see what stands for it (docs/configuration.md, NVIDIA's file)."
        yield Finding("note", seen.configuration.path, reason, cure, quoted(warning))
    if not seen.configuration.mistakes and seen.agent.has_newest_configuration is False:
        yield Finding(
            "wrong",
            seen.agent.address,
            "the agent runs with an older configuration than the file says",
            "Its log says why: search it for `configuration not taken over`.",
        )


def _readiness(seen: NodeSeen) -> Iterator[Finding]:
    if seen.agent.problem and seen.agent.is_running:
        reason = "an agent serves this node, and its probes cannot be reached from here"
        cure = "Run this by kubectl exec in the agent's pod, and with the --http that the agent has."
        yield Finding("note", seen.agent.address, reason, cure, quoted(seen.agent.problem))
    elif seen.agent.problem:
        yield Finding(
            "wrong",
            seen.agent.address,
            NO_AGENT,
            "See why: `kubectl -n kube-system get pods -l app.kubernetes.io/component=agent -o wide`.",
            quoted(seen.agent.problem),
        )
    alike: dict[str, list[ReadinessLine]] = {}
    for line in seen.agent.lines:
        if not line.is_ok:
            alike.setdefault(_SINCE.sub("", line.detail), []).append(line)
    for lines in alike.values():
        about = quoted(", ".join(line.name for line in lines))
        reason = f"the agent is not ready for {'this' if len(lines) == 1 else 'these'}"
        yield Finding("wrong", about, reason, _cure(lines[0]), quoted(lines[0].detail))


def _cure(line: ReadinessLine) -> str:
    known = next((cure for begin, cure in _CURES if line.detail.startswith(begin)), "")
    return known or "docs/operating.md, Probes, says what this line means."


def _devices_fine(seen: ConfigurationSeen) -> str:
    if seen.mistakes:
        return ""
    counts = [f"{one.name} {len(one.healthy)}" for one in seen.resources if one.healthy]
    return f"healthy devices: {', '.join(counts)}" if counts else "nothing to serve on this node"


def _devices(resources: Sequence[ResourceSeen]) -> Iterator[Finding]:
    for one in resources:
        if one.problem:
            cure = (
                "See that the host's /dev and /sys are seen under --host-root (daemonset.yaml mounts them)."
            )
            yield Finding("wrong", one.name, "the hardware cannot be looked at", cure, quoted(one.problem))
        ill: dict[str, list[str]] = {}
        for device, reason in sorted(one.unhealthy.items()):
            ill.setdefault(reason, []).append(device)
        for reason, devices in ill.items():
            cure = (
                "Look at the hardware, and at the node's kernel log; docs/backends.md says what is looked at."
            )
            said = "this device is" if len(devices) == 1 else f"these {len(devices):,} devices are"
            about = f"{one.name} {quoted(', '.join(devices))}"
            yield Finding("wrong", about, f"{said} unhealthy", cure, quoted(reason))
        for card in one.unknown_memory:
            cure = (
                "Set `memory` by its PCI device id (docs/backends.md). On xe from Linux 6.14, see that the "
                "host's /sys/fs/cgroup is seen under --host-root: deploy/agent-cards mounts it."
            )
            reason = "its memory is not known, so no pod that asks for memory gets it"
            yield Finding("note", f"{one.name} {card}", reason, cure)


def _left_out_fine(seen: ConfigurationSeen) -> str:
    has_devices = any(one.healthy or one.unhealthy for one in seen.resources)
    return "no accelerator is left out that could be served" if has_devices else ""


def _left_out(seen: ConfigurationSeen) -> Iterator[Finding]:
    """Only what somebody can mend: an unselected card, or one of another driver, is left out on purpose."""
    for one in seen.left_out:
        if one.code in _LEFT_OUT:
            level, cure = _LEFT_OUT[one.code]
            reason = f"no resource serves it: {one.code}"
            yield Finding(level, quoted(one.path), reason, cure, quoted(one.reason))


def _one_plugin(seen: NodeSeen) -> Iterator[Finding]:
    yield from _vendors_plugins(seen)
    for one in seen.configuration.resources:
        if not one.is_plugin:
            continue
        ours = one.healthy | one.unhealthy.keys()
        known = seen.pod_resources.devices.get(one.name)
        if known is None:
            known = seen.checkpoint.devices.get(one.name, frozenset())
        foreign = sorted(known - ours)
        if foreign:
            whole = not known & ours
            yield Finding(
                "wrong" if whole else "note",
                one.name,
                f"the kubelet has {several(len(foreign), 'device')} of it that this agent never named"
                + (": another plugin serves it" if whole else "; they may have come or gone just now"),
                _TWO_PLUGINS,
                quoted(", ".join(foreign[:5])),
            )
    for (resource, cause), count in sorted(seen.agent.ends.items()):
        if cause == "stream-ended" and count >= UNSTABLE_ENDS:
            reason = f"the kubelet ended its registration {count:,} times"
            yield Finding("wrong", quoted(resource), reason, _TWO_PLUGINS)


def _vendors_plugins(seen: NodeSeen) -> Iterator[Finding]:
    """A vendor's plugin by its socket: NVIDIA's names whole GPUs as we do, so that ids do not tell it."""
    ours = [one.name for one in seen.configuration.resources if one.is_plugin]
    for socket in seen.other_sockets:
        name = socket.path.rpartition("/")[2]
        for pattern, domain, whose in _SOCKETS:
            if socket.state == "answers" and pattern.fullmatch(name):
                both = sorted(one for one in ours if one.startswith(domain))
                if both:
                    reason = f"{whose} device plugin runs beside the agent, which serves {', '.join(both)}"
                    yield Finding("wrong", quoted(socket.path), reason, _TWO_PLUGINS)


def _rights_fine(seen: ServerSeen) -> str:
    if seen.problem:
        return ""
    if not seen.is_wanted:
        return "the configuration needs no API server"
    return f"all {several(len(seen.rights), 'right')} that the configuration needs are given"


def _rights(seen: NodeSeen) -> Iterator[Finding]:
    said = quoted(seen.server.problem)
    if said and seen.agent.problem:
        cure = "Run this by kubectl exec in the agent's pod, which has the agent's account."
        yield Finding("unseen", "API server", "it cannot be asked from here", cure, said)
    elif said:
        cure = "Apply deploy/agent-assignments: it gives the agent's pod a service account and its token."
        yield Finding("wrong", "API server", "the agent has no way to it, and needs one", cure, said)
    unsaid = [right.right for right in seen.server.rights if right.is_given is None]
    if unsaid:
        yield Finding("unseen", ", ".join(unsaid), "the API server does not say whether this is allowed")
    missing: dict[str, list[str]] = {}
    for right in seen.server.rights:
        if right.is_given is False:
            missing.setdefault(right.purpose, []).append(right.right)
    for purpose, rights in missing.items():
        cure = f"Apply the part of deploy/ again that is for {purpose}: role and binding."
        yield Finding("wrong", ", ".join(rights), f"not allowed, but needed for {purpose}", cure)


def _clock_fine(seen: ServerSeen) -> str:
    return "" if seen.ahead_s is None else "the clock agrees with the API server's"


def _clock(seen: ServerSeen) -> Iterator[Finding]:
    if seen.ahead_s is not None and abs(seen.ahead_s) > MOST_AHEAD_S:
        which = "ahead of" if seen.ahead_s > 0 else "behind"
        yield Finding(
            "wrong",
            "clock",
            f"this node's clock is {abs(seen.ahead_s):.0f} s {which} the API server's",
            "Have it set by the network: `timedatectl` and `chronyc tracking` there say what it follows.",
        )
