"""`accelet explain`: which devices and tiles a pod's containers have, why, and whether all sources agree."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# The C core writes connection notices to stderr.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
import msgspec

from accelet.accelerators.inventory import Inventory
from accelet.accelerators.reading.hardwarereads import TimedScan
from accelet.accelerators.scancache import CachedScans
from accelet.agent.config import Serve
from accelet.agent.configfile import ConfigFile
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.tables import print_explained
from accelet.cli.forms.explained import Explained
from accelet.cli.options import (
    cdi_option,
    choose_config,
    kubelet_paths,
    node_options,
    own_kubeconfig_option,
)
from accelet.dra.preparing.explaining import ClaimExplanation
from accelet.dra.preparing.instead import explain_inexpressible
from accelet.kube.errors import KubeError, NotFoundError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import kubelet_uid
from accelet.kubelet.checkpoint import Checkpoint, CheckpointEntry, read_checkpoint
from accelet.kubelet.errors import CheckpointError, MethodDisabledError, PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodRecord, PodResources
from accelet.node.discovery import LOOK_FRESH_S
from accelet.runtime.run import EXIT_FAILED, EXIT_SETTINGS
from accelet.runtime.settings import SettingsError
from resourcemanager.explanation import Sources, explain_container

API_S = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What each source has of the pod."""

    pod: Pod | None
    shown: PodRecord | None
    entries: tuple[CheckpointEntry, ...]
    notes: tuple[str, ...]
    claims: tuple[ClaimExplanation, ...] = ()


@click.command()
@node_options
@own_kubeconfig_option
@cdi_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@click.argument("pod", metavar="NAMESPACE/POD")
def command(
    pod: str,
    config: Path | None,
    host_root: Path,
    kubelet_dir: Path,
    kubelet_root_dir: Path | None,
    pod_resources_dir: Path | None,
    kubeconfig: Kubeconfig | None,
    cdi_dir: Path,
    *,
    as_json: bool,
    **_others: object,
) -> None:
    """Say which devices and tiles each container of a pod has, why, by what proof, and whether the kubelet's
    records, the pod's annotation and the environment agree; likewise for its resource claims. Run it on the
    pod's node, or in the agent's pod.
    """
    namespace, slash, name = pod.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError(f"{pod!r} is no pod; write NAMESPACE/POD")
    try:
        resources = _read_resources(choose_config(config), host_root)
    except SettingsError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_SETTINGS) from None
    paths = kubelet_paths(kubelet_dir, kubelet_root_dir, pod_resources_dir)
    seen = asyncio.run(_look((namespace, name), paths, kubeconfig, cdi_dir))
    if seen.pod is None and seen.shown is None:
        for note in seen.notes:
            click.echo(note, err=True)
        click.echo(f"{pod}: neither the API server nor this node's kubelet shows such a pod", err=True)
        raise SystemExit(EXIT_FAILED)
    explained = explain(pod, seen, resources)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(explained), indent=2).decode())
    else:
        print_explained(Output(), explained)


@dataclass(frozen=True, slots=True)
class ServedHere:
    inventory: Inventory
    is_followed: bool
    serve: Serve


def _read_resources(config: Path | None, root: Path) -> Mapping[str, ServedHere]:
    found, cache = {}, CachedScans(LOOK_FRESH_S).cached
    for resource in ConfigFile(config).load().resources:
        try:
            inventory = TimedScan(partial(resource.backend(cache).scan, root))()
        except OSError as error:
            click.echo(f"{resource.name}: cannot scan: {error.strerror or error}", err=True)
            inventory = Inventory()
        found[resource.name] = ServedHere(inventory, resource.rules.following is not None, resource.serve)
    return found


def explain(name: str, seen: Seen, resources: Mapping[str, ServedHere]) -> Explained:
    """A line for each container and resource of ours that it requests or holds."""
    uid = kubelet_uid(seen.pod) if seen.pod is not None else _uid_by_devices(seen)
    entries = {(one.container, one.resource): one for one in seen.entries if one.pod_uid == uid}
    shown = {one.name: one.devices for one in (seen.shown.containers if seen.shown is not None else ())}
    lines = []
    for container in _containers(seen, [key[0] for key in entries]):
        requested = _requests(seen.pod, container)
        for resource, here in resources.items():
            entry = entries.get((container, resource))
            devices = shown[container].get(resource, frozenset()) if container in shown else None
            if entry is None and not devices and resource not in requested:
                continue
            sources = Sources(container, resource, entry, devices, seen.pod)
            lines.append(explain_container(sources, here.inventory, is_followed=here.is_followed))
    return Explained(
        name, uid, tuple(lines), (*seen.notes, *_inexpressible(seen.pod, resources)), seen.claims
    )


def _inexpressible(pod: Pod | None, resources: Mapping[str, ServedHere]) -> Iterator[str]:
    """What the pod asks for that this node, which serves cards through DRA, cannot give."""
    cards = [
        name for name, here in resources.items() if here.serve == "dra" and name.startswith("gpu.intel.com/")
    ]
    for container in pod.all_containers if pod is not None and cards else ():
        limits = {name: int(amount) for name, amount in container.limits.items()}
        if said := explain_inexpressible(container.name, limits, cards, pod.annotations if pod else {}):
            yield said


def _containers(seen: Seen, recorded: Sequence[str]) -> list[str]:
    known = [one.name for one in (seen.pod.all_containers if seen.pod is not None else ())]
    shown = [one.name for one in (seen.shown.containers if seen.shown is not None else ())]
    return list(dict.fromkeys([*known, *shown, *recorded]))


def _requests(pod: Pod | None, container: str) -> Mapping[str, object]:
    containers = pod.all_containers if pod is not None else ()
    return next((one.limits for one in containers if one.name == container), {})


def _uid_by_devices(seen: Seen) -> str:
    """The pod in the checkpoint that has what podresources shows, which names no UID."""
    if seen.shown is None:
        return ""
    held = {
        (one.name, resource, ids) for one in seen.shown.containers for resource, ids in one.devices.items()
    }
    uids = {one.pod_uid for one in seen.entries if (one.container, one.resource, one.device_ids) in held}
    return uids.pop() if len(uids) == 1 else ""


async def _look(name: ObjectKey, paths: KubeletPaths, kubeconfig: Kubeconfig | None, cdi: Path) -> Seen:
    notes: list[str] = []
    try:
        checkpoint = await asyncio.to_thread(read_checkpoint, paths.device_plugins)
    except CheckpointError as error:
        notes.append(str(error))
        checkpoint = Checkpoint()
    try:
        shown = await _ask_kubelet(name, paths)
    except PodResourcesError as error:
        notes.append(str(error))
        shown = None
    try:
        pod, claims = await _ask_api_server(name, kubeconfig, paths, cdi, notes)
    except (KubeError, TimeoutError) as error:
        notes.append(f"What is assigned is not known: {error or 'the API server does not answer'}")
        pod, claims = None, ()
    return Seen(pod, shown, checkpoint.entries, tuple(notes), claims)


async def _ask_kubelet(name: ObjectKey, paths: KubeletPaths) -> PodRecord | None:
    async with PodResources(paths.pod_resources_socket) as pod_resources:
        try:
            return await pod_resources.get(*name)
        except MethodDisabledError:  # before 1.34
            every = await pod_resources.list_all()
            return next((pod for pod in every if (pod.namespace, pod.name) == name), None)


async def _ask_api_server(
    name: ObjectKey, kubeconfig: Kubeconfig | None, paths: KubeletPaths, cdi: Path, notes: list[str]
) -> tuple[Pod | None, tuple[ClaimExplanation, ...]]:
    """The pod, and what is to be said of its claims."""
    from accelet.cli.reading.podclaims import explain_pod_claims  # noqa: PLC0415 - likewise
    from accelet.kube.apiresources import PODS  # noqa: PLC0415 - likewise
    from accelet.kube.client import Client  # noqa: PLC0415 - half a second, for those who only ask for help
    from accelet.kube.podparser import parse_pod  # noqa: PLC0415 - likewise

    client = await Client.connect(kubeconfig)
    try:
        async with asyncio.timeout(API_S):
            raw = await client.get(PODS, *name)
            return parse_pod(raw), await explain_pod_claims(client, raw, paths.root, cdi, notes)
    except NotFoundError:
        return None, ()
    finally:
        client.close()
