"""`accelet slices`: what the provisioner would make for jobs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.slices import print_offline_plan
from accelet.cli.reading.manifests import read_manifests
from accelet.cli.reading.objectfiles import UnreadableInputError
from accelet.kube.errors import MalformedObjectError
from accelet.provisioner.demand.owners import PARSERS, JobOwner
from accelet.provisioner.offline import OfflinePlan, PlannedSlice, RefusedSlices, plan_offline
from accelet.provisioner.providers.gke.body import render_placement
from accelet.provisioner.settings import (
    DEFAULT_SETTINGS,
    ProviderName,
    ProvisionerSettings,
    read_settings,
)
from accelet.runtime.settings import SettingsError


@click.group("slices")
def command() -> None:
    """Slices of TPUs that are made on demand."""


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
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def plan(*, file: Path, provider: ProviderName | None, config: Path | None, as_json: bool) -> None:
    """Show which slices would be made for the JobSets and Jobs in a file, and why others would not.

    Needs no cluster, and changes nothing anywhere.
    """
    settings = _read_settings(config)
    owners, refused = _read_owners(read_manifests(file))
    found = plan_offline(owners, provider or settings.provider, settings)
    found = OfflinePlan(found.slices, (*refused, *found.refused), found.notes)
    if as_json:
        click.echo(json.dumps(_as_json(found), indent=2))
    else:
        print_offline_plan(Output(), found)
    for note in found.notes:
        click.echo(note, err=True)


def _read_owners(objects: Iterable[dict[str, Any]]) -> tuple[list[JobOwner], list[RefusedSlices]]:
    """The JobSets and Jobs among the objects; one that cannot be read is refused with its reason."""
    owners: list[JobOwner] = []
    refused: list[RefusedSlices] = []
    for item in objects:
        kind = str(item.get("kind"))
        parse = PARSERS.get(kind)
        if parse is None:
            continue
        try:
            owners.append(parse(item))
        except MalformedObjectError as error:
            name = "/".join((kind, error.namespace or "default", error.name))
            reason = f"{error.field}: {error.problem}" if error.field else error.problem
            refused.append(RefusedSlices(name, None, reason))
    return owners, refused


def _as_json(found: OfflinePlan) -> dict[str, Any]:
    return {
        "slices": [_slice(one) for one in found.slices],
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
