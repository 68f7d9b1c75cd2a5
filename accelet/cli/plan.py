"""`accelet plan`: places gangs offline, from lists as kubectl prints them, and shows who sits where."""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from rich.console import Console

from accelet.cli.draw import draw_plans
from accelet.kube.errors import MalformedObjectError
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.runtime.settings import SettingsError
from accelet.scheduler.cluster import Cluster
from accelet.scheduler.gangs import GATE_PREFIX, find_gangs, is_gated
from accelet.scheduler.plan import Plan, plan_gangs
from accelet.scheduler.settings import read_settings
from accelet.scheduler.topology import Scheme
from accelet.scheduler.workload import Workload, parse_workload

_T = TypeVar("_T")
_File = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


class _UnreadableInputError(click.ClickException):
    """Input that cannot be planned with; the text names the file, the object and the field."""

    exit_code = 2


@click.command("plan")
@click.option("--nodes", "node_file", type=_File, required=True, help="`kubectl get nodes -o json`")
@click.option(
    "--pods", "pod_file", type=_File, required=True, help="`kubectl get pods -A -o json`: gated and bound"
)
@click.option(
    "--jobs",
    "job_file",
    type=_File,
    help="The pods' owners, `kubectl get jobs -A -o json`: a gang is planned when it is complete.",
)
@click.option("--gate-prefix", default=GATE_PREFIX, show_default=True, help="Which gates are ours.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's settings, for the levels of the network.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a drawing.")
def command(
    *,
    node_file: Path,
    pod_file: Path,
    job_file: Path | None,
    gate_prefix: str,
    config: Path | None,
    as_json: bool,
) -> None:
    """Shows where gated pods would be placed, and why there.

    Without --jobs, a gang is exactly the gated pods given. Nothing is changed anywhere.
    """
    scheme = _read_scheme(config) if config else Scheme()
    nodes = _read(node_file, "Node", parse_node)
    pods = _read(pod_file, "Pod", parse_pod)
    _refuse_twins(node_file, "Node", (node.name for node in nodes))
    _refuse_twins(pod_file, "Pod", (f"{pod.namespace}/{pod.name}" for pod in pods))
    cluster = Cluster(scheme, nodes, pods)
    plans = _plan(cluster, pods, _read(job_file, None, parse_workload) if job_file else None, gate_prefix)
    if as_json:
        click.echo(json.dumps({"jobs": [_job(plan) for plan in plans]}, indent=2))
    else:
        draw_plans(Console(highlight=False), cluster.layout, plans)


def _read_scheme(config: Path) -> Scheme:
    try:
        return read_settings(config).scheme()
    except SettingsError as error:
        raise _UnreadableInputError(str(error)) from None


def _plan(
    cluster: Cluster, pods: Iterable[Pod], workloads: Iterable[Workload] | None, prefix: str
) -> list[Plan]:
    if workloads is None:
        gangs = find_gangs((pod for pod in pods if is_gated(pod, prefix)), prefix=prefix)
    else:
        gangs = find_gangs(pods, workloads, prefix)
    return plan_gangs(gangs, cluster.layout, cluster.room())


def _job(plan: Plan) -> dict[str, object]:
    placements = [{"pod": f"{pod.namespace}/{pod.name}", "node": node} for pod, node in plan.placements]
    return {
        "name": str(plan.gang.key),
        "placements": placements if plan.nodes is not None else None,
        "distance": plan.distance,
        "lower_bound": plan.lower_bound,
        "optimal": plan.is_optimal,
        "reason": plan.reason,
    }


def _read(file: Path, kind: str | None, parse: Callable[[RawObject], _T]) -> list[_T]:
    """The objects of a file, all of `kind` (None: of any), as values.

    Raises:
        _UnreadableInputError: the file or one of its objects cannot be read.
    """
    values = []
    for index, item in enumerate(_items(file)):
        place = f"{file}: items[{index}]"
        said = item.get("kind", kind)
        if kind and said != kind:
            raise _UnreadableInputError(f"{place}{_called(item)} is a {said}, not a {kind}")
        try:
            values.append(parse({**item, "kind": said}))
        except MalformedObjectError as error:
            raise _UnreadableInputError(f"{place}: {error}") from None
    return values


def _items(file: Path) -> list[dict[str, object]]:
    """The raw objects of a list as kubectl prints it, or the one object that a file holds."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        found = msgspec.json.decode(content, type=dict[str, object])
    except OSError as error:
        raise _UnreadableInputError(f"{file}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _UnreadableInputError(f"{file}: not a Kubernetes list in JSON: {error}") from None
    items: object = found.get("items", [found] if "metadata" in found else None)
    if not isinstance(items, list):
        raise _UnreadableInputError(
            f'{file}: there is no list of objects under "items"; give the output of `kubectl get … -o json`'
        )
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise _UnreadableInputError(f"{file}: items[{index}] is not an object")
    # Items of a NodeList or PodList, unlike those of a List, need not say what they are.
    of_list = str(found.get("kind", "")).removesuffix("List")
    return [{"kind": of_list, **item} for item in items] if of_list else items


def _called(item: dict[str, object]) -> str:
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f" ({name})" if name else ""


def _refuse_twins(file: Path, kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _UnreadableInputError(f"{file}: {kind} {name} is there twice")
        seen.add(name)
