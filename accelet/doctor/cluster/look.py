"""Looks at a cluster, all of it within a time."""

import asyncio
import time
from dataclasses import replace
from functools import partial

from accelet.agent.config import parse_config
from accelet.doctor.cluster.listing import ClusterApi, KindLister
from accelet.doctor.cluster.objects import (
    PART_OF,
    read_binding,
    read_class,
    read_config_text,
    read_event,
    read_lease,
    read_machine,
    read_pod,
    read_policy,
    read_process,
    read_version,
)
from accelet.doctor.cluster.processes import OTHER_PLUGINS
from accelet.doctor.cluster.seen import (
    AccountRight,
    AgentConfigSeen,
    BindingSeen,
    ClusterSeen,
    LeaseSeen,
    NodeMachine,
    PodSeen,
    PolicySeen,
    ProcessSeen,
)
from accelet.doctor.cluster.waiting import is_waiting
from accelet.doctor.rights import PROVISIONER, SCHEDULER, Right, agent_rights
from accelet.doctor.server import ask_rights, ask_time
from accelet.kube.apiresources import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, ApiResource
from accelet.kube.errors import ApiError, MalformedObjectError, NotFoundError, is_refusal
from accelet.runtime.settings import SettingsError, read_settings_text
from accelet.scheduler.settings import SchedulerSettings

CLUSTER_S = 120.0

_ADMISSION = "admissionregistration.k8s.io"
_DAEMON_SETS = ApiResource("DaemonSet", "daemonsets", "apps")
_DEPLOYMENTS = ApiResource("Deployment", "deployments", "apps")
_CLASSES = ApiResource("DeviceClass", "deviceclasses", "resource.k8s.io")
_OURS = {"labelSelector": f"{PART_OF}=accelet"}
_MOST_MISTAKES = 50


async def look_at_cluster(api: ClusterApi, within_s: float = CLUSTER_S) -> ClusterSeen:
    """Everything that can be seen of it.

    Raises:
        KubeError: there is no answer. TimeoutError: it takes longer than `within_s`.
    """
    async with asyncio.timeout(within_s):
        listing = KindLister(api)
        version = read_version(await api.get_version())
        ahead_s = await ask_time(api)
        processes = (
            *await listing.all(_DAEMON_SETS, partial(read_process, kind="DaemonSet"), query=_OURS),
            *await listing.all(_DEPLOYMENTS, partial(read_process, kind="Deployment"), query=_OURS),
        )
        configs = [await _config(listing, one) for one in processes if one.component == "agent"]
        policies, bindings = await _policies(listing)
        pods = await listing.all(PODS, read_pod, keep=_is_relevant)
        seen = ClusterSeen(
            now_s=time.time() - (ahead_s or 0.0),
            version=version,
            ahead_s=ahead_s,
            machines=await _machines(listing),
            pods=pods,
            processes=processes,
            configs=tuple(config for config in configs if config is not None),
            policies=policies,
            bindings=bindings,
            leases=await _leases(listing, processes),
            offered=await _offered(listing),
            waiting=await _waiting(listing, pods),
            label_sets=await _label_sets(listing, processes),
        )
        rights = await _rights(api, seen)
        return replace(seen, rights=rights, unseen=listing.unseen)


def _is_relevant(one: PodSeen) -> bool:
    return (
        is_waiting(one.pod)
        or one.reason == "UnexpectedAdmissionError"
        or one.pod.labels.get(PART_OF) == "accelet"
        or any(name in image for image in one.images for name in OTHER_PLUGINS)
    )


async def _machines(listing: KindLister) -> tuple[NodeMachine, ...]:
    leases = await listing.all(LEASES, read_lease, namespace="kube-node-lease")
    ahead = {name: ahead_s for name, _, ahead_s in leases}
    machines = await listing.all(NODES, read_machine)
    return tuple(replace(machine, ahead_s=ahead.get(machine.node.name)) for machine in machines)


async def _leases(listing: KindLister, processes: tuple[ProcessSeen, ...]) -> dict[str, LeaseSeen | None]:
    found: dict[str, LeaseSeen | None] = {}
    for process in processes:
        if process.component not in ("scheduler", "provisioner"):
            continue
        try:
            name = f"accelet-{process.component}"
            _, found[process.component], _ = read_lease(
                await listing.api.get(LEASES, process.namespace, name)
            )
        except (NotFoundError, MalformedObjectError):
            found[process.component] = None
        except ApiError as error:
            if not is_refusal(error):
                raise
            listing.unseen["leases"] = str(error)
    return found


async def _config(listing: KindLister, process: ProcessSeen) -> AgentConfigSeen | None:
    if not process.config_map:
        return None
    try:
        raw = await listing.api.get(CONFIG_MAPS, process.namespace, process.config_map)
        config = parse_config(read_config_text(raw), "config.yaml")
    except SettingsError as error:
        return AgentConfigSeen(process, tuple(str(one) for one in error.problems[:_MOST_MISTAKES]))
    except (NotFoundError, MalformedObjectError) as error:
        return AgentConfigSeen(process, (str(error),))
    except ApiError as error:
        if not is_refusal(error):
            raise
        listing.unseen["configmaps"] = str(error)
        return None
    names = tuple(one.name for one in config.resources if one.serve == "device-plugin")
    return AgentConfigSeen(process, (), names, config.publish_cards, tuple(agent_rights(config)))


async def _label_sets(listing: KindLister, processes: tuple[ProcessSeen, ...]) -> tuple[tuple[str, ...], ...]:
    """By which labels the scheduler reads where nodes are; with Kueue's Topology nobody here knows."""
    for process in processes:
        if process.component != "scheduler" or not process.config_map:
            continue
        try:
            raw = await listing.api.get(CONFIG_MAPS, process.namespace, process.config_map)
            settings = read_settings_text(read_config_text(raw), "config.yaml", SchedulerSettings)
        except (NotFoundError, MalformedObjectError, SettingsError):
            continue  # it ends by that, and its pods are not ready
        except ApiError as error:
            if not is_refusal(error):
                raise
            listing.unseen["configmaps"] = str(error)
            continue
        return () if settings.admission.topology else settings.scheme().label_sets
    return ()


async def _policies(listing: KindLister) -> tuple[tuple[PolicySeen, ...], tuple[BindingSeen, ...]]:
    policies: list[PolicySeen] = []
    bindings: list[BindingSeen] = []
    for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        plural = f"{kind.lower().removesuffix('y')}ies"
        resource = ApiResource(kind, plural, _ADMISSION)
        policies += await listing.all(resource, partial(read_policy, kind=kind))
        bound = f"{kind}Binding"
        resource = ApiResource(bound, f"{bound.lower()}s", _ADMISSION)
        bindings += await listing.all(resource, partial(read_binding, kind=bound))
    return tuple(policies), tuple(bindings)


async def _offered(listing: KindLister) -> frozenset[str]:
    """The resource names that DeviceClasses stand for."""
    return frozenset(name for names in await listing.all(_CLASSES, read_class) for name in names)


async def _waiting(listing: KindLister, pods: tuple[PodSeen, ...]) -> dict[str, str]:
    """What the scheduler said last of gated pods; Events are kept for an hour, so it may be nothing."""
    gated = {f"{one.pod.namespace}/{one.pod.name}" for one in pods if one.pod.gates}
    if not gated:
        return {}
    events = await listing.all(EVENTS, read_event, query={"fieldSelector": "reason=Waiting"})
    newest = sorted(events, key=lambda event: event[1])
    return {about: note for about, _, note in newest if about in gated}


async def _rights(api: ClusterApi, seen: ClusterSeen) -> tuple[AccountRight, ...]:
    found: list[AccountRight] = []
    for process in seen.processes:
        needs: dict[Right, str] = {}
        for config in seen.configs:
            needs |= dict(config.needs) if config.process == process else {}
        if process.component in ("scheduler", "provisioner"):
            rights = SCHEDULER if process.component == "scheduler" else PROVISIONER
            needs = {right.moved_to(process.namespace): f"the {process.component}" for right in rights}
        if process.account and needs:
            asked = await ask_rights(api, needs, process.user)
            found += (AccountRight(process, right, needs[right], given) for right, given in asked)
    return tuple(found)
