"""`accelet slices`: the slices that are wanted, and what would be made for jobs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.slices import print_offline_plan, print_slices
from accelet.cli.options import own_kubeconfig_option
from accelet.cli.reading.asking import ask
from accelet.cli.reading.manifests import read_manifests
from accelet.cli.reading.objectfiles import UnreadableInputError
from accelet.cli.subcommands.slices_forget import command as forget
from accelet.kube.errors import (
    ForbiddenError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
)
from accelet.kube.kubeconfig import Kubeconfig
from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.parsers import MAKERS, PARSERS
from accelet.provisioner.demand.slices import PROVISION
from accelet.provisioner.identity.children import first_worker
from accelet.provisioner.offline import OfflinePlan, PlannedSlice, RefusedSlices, plan_offline
from accelet.provisioner.providers.gke.body import render_placement
from accelet.provisioner.record import SliceRequest
from accelet.provisioner.settings import (
    DEFAULT_SETTINGS,
    ProviderName,
    ProvisionerSettings,
    read_settings,
)
from accelet.runtime.run import EXIT_FAILED
from accelet.runtime.settings import SettingsError

_NOT_SERVED = (
    f"it asks for slices by {PROVISION}, which are made for JobSets, Jobs, LeaderWorkerSets and "
    "RayClusters alone: write it as one of these, or leave the annotation out and make its node pools by hand"
)

_QUEUE = "kueue.x-k8s.io/queue-name"
_FLAVORS = (
    "a ResourceFlavor of its queue may add node labels when Kueue lets it run, which are not in the file: "
    "write them into the template to see what it gets then"
)


@click.group("slices", invoke_without_command=True)
@own_kubeconfig_option
@click.option("-n", "--namespace", help="Show this namespace alone.  [default: all of them]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@click.pass_context
def command(
    context: click.Context, *, kubeconfig: Kubeconfig | None, namespace: str | None, as_json: bool
) -> None:
    """Show every TPU slice that is wanted, how far it is and why; or plan some offline."""
    if context.invoked_subcommand is not None:
        return
    found, notes = _read_cluster(kubeconfig, namespace)
    for note in notes:
        click.echo(note, err=True)
    if as_json:
        click.echo(json.dumps({"slices": [_request(one) for one in found]}, indent=2))
    else:
        print_slices(Output(), found)


@command.command("plan")
@click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    required=True,
    help="Manifests, YAML or JSON; - reads the standard input.",
)
@click.option(
    "--provider",
    type=click.Choice(["gke", "simulated", "cluster-api"]),
    help="Whose requests to show.  [default: the settings', which is simulated]",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The provisioner's settings: tiers, zones, classes.",
)
@click.option("--workers", is_flag=True, help="Show what the first worker of each slice is told of itself.")
@click.option("--check", is_flag=True, help="Exit with 1 where something is refused.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def plan(
    *,
    file: Path,
    provider: ProviderName | None,
    config: Path | None,
    workers: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Show which slices would be made for the jobs in a file, and why others would not.

    Needs no cluster, and changes nothing anywhere. Exit codes: 0 the answer is there, 1 something is
    refused and --check is given, 2 the file or the settings cannot be read.
    """
    settings = _read_settings(config)
    objects = list(read_manifests(file))
    owners, refused = _read_owners(objects)
    found = plan_offline(owners, provider or settings.provider, settings)
    notes = (*found.notes, *_notes_on_queues(objects, found.refused))
    found = OfflinePlan(found.slices, (*refused, *found.refused), notes)
    told = _first_workers(objects, found) if workers else ()
    if as_json:
        click.echo(json.dumps(_as_json(found, told), indent=2))
    else:
        print_offline_plan(Output(), found, told)
    for note in found.notes:
        click.echo(note, err=True)
    if check and found.refused:
        raise SystemExit(EXIT_FAILED)


command.add_command(forget)


def _read_cluster(
    kubeconfig: Kubeconfig | None, namespace: str | None
) -> tuple[Sequence[SliceRequest], Sequence[str]]:
    from accelet.cli.reading.slicelists import API_S, list_slices  # noqa: PLC0415 - half a second, not for plans

    def explain(error: KubeError) -> str:
        if isinstance(error, NotFoundError):
            return "this cluster knows no SliceRequests; kubectl apply -k deploy/crds"
        if isinstance(error, ForbiddenError) and not namespace:
            return f"{error}\nWho may see one namespace alone names it: accelet slices -n NAMESPACE."
        return str(error)

    return ask(kubeconfig, list_slices(kubeconfig, namespace), API_S, explain)


def _request(one: SliceRequest) -> dict[str, Any]:
    return {
        "namespace": one.namespace,
        "name": one.name,
        "spec": msgspec.to_builtins(one.spec),
        "status": {"phase": one.status.phase, **msgspec.to_builtins(one.status)},
    }


def _read_owners(objects: Iterable[dict[str, Any]]) -> tuple[list[JobOwner], list[RefusedSlices]]:
    """The owners of slices among the objects. Refused is what cannot be read, and other kinds that ask."""
    owners: list[JobOwner] = []
    refused: list[RefusedSlices] = []
    for item in objects:
        kind = str(item.get("kind"))
        parse = PARSERS.get(kind) or MAKERS.get(kind)
        if parse is None:
            if _asks(item):
                refused.append(RefusedSlices(_owner_key(item), None, _NOT_SERVED))
            continue
        try:
            owners.append(parse(item))
        except MalformedObjectError as error:
            name = "/".join((kind, error.namespace or "default", error.name))
            reason = f"{error.field}: {error.problem}" if error.field else error.problem
            refused.append(RefusedSlices(name, None, reason))
    return owners, refused


def _notes_on_queues(objects: Iterable[Mapping[str, Any]], refused: Iterable[RefusedSlices]) -> Sequence[str]:
    """What a file does not tell of refused jobs that Kueue lets run: the labels of its flavors."""
    names = {one.owner for one in refused}
    queued = [name for item in objects if (name := _owner_key(item)) in names and _is_queued(item)]
    return [f"{name}: {_FLAVORS}" for name in dict.fromkeys(queued)]


def _is_queued(item: Mapping[str, Any]) -> bool:
    metadata = item.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and _QUEUE in labels


def _asks(item: Mapping[str, Any]) -> bool:
    """Whether an object has the annotation by which jobs ask for slices."""
    metadata = item.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and str(annotations.get(PROVISION)).lower() == "true"


def _first_workers(objects: Iterable[dict[str, Any]], found: OfflinePlan) -> Sequence[Mapping[str, str]]:
    """What the first worker of each planned slice is told, in their order; nothing where it is malformed."""
    planned = {str(one.wanted.owner) for one in found.slices if not one.wanted.owner.is_of_groups}
    raw = {_owner_key(item): item for item in objects if _owner_key(item) in planned}
    told: list[Mapping[str, str]] = []
    of_groups = dict.fromkeys(str(one.wanted.owner) for one in found.slices if one.wanted.owner.is_of_groups)
    for name in of_groups:
        click.echo(f"{name}: its own webhook tells the workers who they are", err=True)
    for one in found.slices:
        if one.wanted.owner.is_of_groups:
            told.append({})
            continue
        owner = raw[str(one.wanted.owner)]
        try:
            told.append(first_worker(owner, one.wanted.replicated_job, one.wanted.index))
        except MalformedObjectError as error:
            click.echo(f"{one.wanted.owner}: its workers cannot be told anything: {error}", err=True)
            told.append({})
    return told


def _owner_key(item: Mapping[str, Any]) -> str:
    """`JobSet/ml/train`, as JobOwner has it; of what is no such object, no owner's."""
    metadata = item.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return f"{item.get('kind')}/{known.get('namespace') or 'default'}/{known.get('name')}"


def _as_json(found: OfflinePlan, told: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    slices = [_slice(one) for one in found.slices]
    if told:
        slices = [{**one, "environment": seen} for one, seen in zip(slices, told, strict=True)]
    return {
        "slices": slices,
        "refused": [
            {"owner": one.owner, "replicated_job": one.replicated_job, "reason": one.reason}
            for one in found.refused
        ],
    }


def _slice(planned: PlannedSlice) -> dict[str, Any]:
    wanted, machines = planned.wanted, planned.wanted.machines
    return {
        "owner": str(wanted.owner),
        "replicated_job": wanted.replicated_job,
        "index": wanted.index,
        "accelerator": machines.accelerator,
        "topology": machines.topology,
        "hosts": machines.hosts,
        "chips_per_host": machines.chips_per_host,
        "machine_type": machines.machine_type,
        "placement": render_placement(planned.pool),
        "body": planned.body,
    }


def _read_settings(config: Path | None) -> ProvisionerSettings:
    try:
        return read_settings(config) if config else DEFAULT_SETTINGS
    except SettingsError as error:
        raise UnreadableInputError(str(error)) from None
