"""`accelet plan`: places gangs offline, from lists as kubectl prints them, and shows who sits where."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.plans import describe_assignment, draw_plans
from accelet.cli.reading.objectfiles import OBJECT_FILE, read_objects, read_scheduler_settings, refuse_twins
from accelet.cli.reading.volumes import read_volumes
from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang, GangKey, find_gangs, is_gated
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.placement.plan import Plan, plan_gangs
from accelet.scheduler.preemption.offline import preempt_offline
from accelet.scheduler.preemption.search import Preemption
from accelet.scheduler.record import SELECTOR, parse_record
from accelet.scheduler.state import SchedulerState


@click.command("plan")
@click.option("--nodes", "node_file", type=OBJECT_FILE, required=True, help="`kubectl get nodes -o json`")
@click.option(
    "--pods",
    "pod_file",
    type=OBJECT_FILE,
    required=True,
    help="`kubectl get pods -A -o json`: gated and bound",
)
@click.option(
    "--jobs",
    "job_file",
    type=OBJECT_FILE,
    help="The pods' owners, `kubectl get jobs -A -o json`: a gang is planned when it is complete.",
)
@click.option(
    "--plans",
    "plan_file",
    type=OBJECT_FILE,
    help=f"`kubectl get configmaps -A -l {SELECTOR} -o json`: what is promised already is not given again.",
)
@click.option(
    "--volumes",
    "volume_file",
    type=OBJECT_FILE,
    help="`kubectl get pvc,pv,sc -A -o json`: pods go where their volumes can be reached.",
)
@click.option("--gate-prefix", default=GATE_PREFIX, show_default=True, help="Which gates are ours.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's settings: levels of the network, kinds of cards.",
)
@click.option(
    "--preempt",
    is_flag=True,
    help="Show too whom the scheduler would evict for gangs that must wait, where that is switched on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a drawing.")
def command(
    *,
    node_file: Path,
    pod_file: Path,
    job_file: Path | None,
    plan_file: Path | None,
    volume_file: Path | None,
    gate_prefix: str,
    config: Path | None,
    preempt: bool,
    as_json: bool,
) -> None:
    """Shows where gated pods would be placed, and why there.

    Without --jobs, a gang is exactly the gated pods given. Nothing is changed anywhere.
    """
    if preempt and job_file is None:
        raise click.UsageError("--preempt needs --jobs: whose owner is not known is evicted by nobody")
    settings = read_scheduler_settings(config)
    nodes = read_objects(node_file, "Node", parse_node)
    pods = read_objects(pod_file, "Pod", parse_pod)
    refuse_twins(node_file, "Node", (node.name for node in nodes))
    refuse_twins(pod_file, "Pod", (f"{pod.namespace}/{pod.name}" for pod in pods))
    workloads = read_objects(job_file, None, parse_workload) if job_file else None
    cards = settings.cards
    state = SchedulerState(settings.scheme(), gate_prefix, cards.resources, cards.policy)
    for node in nodes:
        state.set_node(node)
    for workload in workloads or ():
        state.set_workload(workload)
    for pod in pods:
        state.set_pod(pod)
    for record in read_objects(plan_file, "ConfigMap", parse_record) if plan_file else ():
        state.set_record(record)
    if volume_file is not None:
        read_volumes(volume_file, state)
    cluster = state.cluster
    gangs = state.gangs() if workloads is not None else _gangs_as_given(pods, state)
    layout = cluster.layout
    plans = plan_gangs(gangs, layout, cluster.room())
    preempted = preempt_offline(state, plans) if preempt else {}
    if as_json:
        click.echo(json.dumps({"jobs": [_job(plan, preempted) for plan in plans]}, indent=2))
    else:
        draw_plans(Output(), layout, plans, preempted)


def _gangs_as_given(pods: Iterable[Pod], state: SchedulerState) -> list[Gang]:
    """The gated pods that no plan has a node for."""
    gated = (pod for pod in pods if is_gated(pod, state.prefix) and state.planned_node(pod) is None)
    return find_gangs(gated, prefix=state.prefix, asked=state.asked_by)


def _job(plan: Plan, preempted: Mapping[GangKey, Preemption]) -> dict[str, object]:
    found = preempted.get(plan.gang.key)
    return {
        "name": str(plan.gang.key),
        "placements": list(_placements(plan)) if plan.nodes is not None else None,
        "distance": plan.distance,
        "lower_bound": plan.lower_bound,
        "optimal": plan.is_optimal,
        "reason": plan.reason,
        **({"preemption": _preemption(found)} if found else {}),
    }


def _preemption(found: Preemption) -> dict[str, object]:
    victims = [
        {
            "name": str(victim.key),
            "priority": victim.priority,
            "pods": [f"{pod.namespace}/{pod.name}" for pod in victim.pods],
        }
        for victim in found.victims
    ]
    placements = list(_placements(found.plan)) if found.plan else None
    return {"victims": victims, "placements": placements, "settled": found.is_settled}


def _placements(plan: Plan) -> Iterator[dict[str, object]]:
    for (pod, node), assignment in zip(plan.placements, plan.assignments, strict=True):
        cards = {"assignment": describe_assignment(assignment)} if assignment else {}
        yield {"pod": f"{pod.namespace}/{pod.name}", "node": node, **cards}
