"""`accelet cards`: every card and tile of the cluster, who holds it, and what is free."""

from pathlib import Path

import click
import msgspec

from accelet.cli.drawing.cards import print_cards
from accelet.cli.drawing.output import Output
from accelet.cli.options import own_kubeconfig_option
from accelet.cli.reading.asking import ask
from accelet.cli.reading.cardobjects import CardObjects
from accelet.cli.reading.objectfiles import OBJECT_FILE, read_objects, read_scheduler_settings, refuse_twins
from accelet.cli.reading.schedulerport import IN_ITS_POD, with_lingering
from accelet.dra.names import GPU_DRIVER
from accelet.dra.preparing.claim import AllocatedClaim, parse_held
from accelet.dra.publishing.published import parse_published
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.overview.claimedcards import with_claimed
from accelet.runtime.probes import AddressError
from accelet.scheduler.cards.view import ClusterView, view_cluster
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.record import SELECTOR, parse_record
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState


@click.command("cards")
@own_kubeconfig_option
@click.option(
    "--nodes",
    "node_file",
    type=OBJECT_FILE,
    help="Instead of the API server, with --pods: `kubectl get nodes -o json`; - reads the standard input.",
)
@click.option("--pods", "pod_file", type=OBJECT_FILE, help="`kubectl get pods -A -o json`")
@click.option(
    "--plans",
    "plan_file",
    type=OBJECT_FILE,
    help=f"`kubectl get configmaps -A -l {SELECTOR} -o json`, what the scheduler is about to release.",
)
@click.option(
    "--slices", "slice_file", type=OBJECT_FILE, help="`kubectl get resourceslices -o json`, with --claims."
)
@click.option("--claims", "claim_file", type=OBJECT_FILE, help="`kubectl get resourceclaims -A -o json`")
@click.option("--node", "wanted", metavar="NAME", help="This node only.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's settings, for the resources that count cards.",
)
@click.option(
    "--scheduler",
    metavar="HOST:PORT",
    help="The scheduler's HTTP port, which tells its own pod alone of pods deleted by force.  "
    f"[default: {IN_ITS_POD} with the pod's service account, else nobody is asked]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(
    *,
    kubeconfig: Kubeconfig | None,
    node_file: Path | None,
    pod_file: Path | None,
    plan_file: Path | None,
    slice_file: Path | None,
    claim_file: Path | None,
    wanted: str | None,
    config: Path | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Show every card and tile of the cluster, who holds it, and what is free, as the scheduler counts it.

    Cards that are served through DRA are shown with the claims that hold them. Nothing is changed anywhere.
    """
    settings = read_scheduler_settings(config)
    if node_file or pod_file or plan_file or slice_file or claim_file:
        objects = _read_files(node_file, pod_file, plan_file, slice_file, claim_file)
    else:
        asked = scheduler or (None if kubeconfig else IN_ITS_POD)
        objects = _read_cluster(kubeconfig)
        objects = _with_lingering(objects, asked) if asked else objects
    for note in objects.notes:
        click.echo(note, err=True)
    view = _view(objects, settings, wanted)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
    else:
        print_cards(Output(), view)


def _view(objects: CardObjects, settings: SchedulerSettings, wanted: str | None) -> ClusterView:
    """The view of all nodes, or of the one that is wanted, from the state the scheduler would have."""
    state = SchedulerState(settings.scheme(), GATE_PREFIX, settings.cards.resources, settings.cards.policy)
    for node in objects.nodes:
        state.set_node(node)
    for pod in objects.pods:
        state.set_pod(pod)
    for plan in objects.plans:
        state.set_record(plan)
    for gone in objects.lingering:
        state.cluster.cards.hold(gone.key, gone.node, gone.uses)
    chosen = [node for node in objects.nodes if wanted in (None, node.name)]
    if wanted is not None and not chosen:
        raise click.BadParameter(
            f"none of the {len(objects.nodes)} nodes is called {wanted}", param_hint="--node"
        )
    view = view_cluster(chosen, state.cluster.cards)
    return with_claimed(view, objects.slices, objects.claims) if objects.slices else view


def _read_files(
    node_file: Path | None,
    pod_file: Path | None,
    plan_file: Path | None,
    slice_file: Path | None,
    claim_file: Path | None,
) -> CardObjects:
    if node_file is None or pod_file is None:
        raise click.UsageError("--nodes and --pods belong together: who holds a card is written on the pods")
    if (slice_file is None) != (claim_file is None):
        raise click.UsageError("--slices and --claims belong together: claims hold what is in slices")
    files = (node_file, pod_file, plan_file, slice_file, claim_file)
    if [str(file) for file in files].count("-") > 1:
        raise click.UsageError("only one file can be read from the standard input")
    nodes = read_objects(node_file, "Node", parse_node)
    pods = read_objects(pod_file, "Pod", parse_pod)
    refuse_twins(node_file, "Node", (node.name for node in nodes))
    refuse_twins(pod_file, "Pod", (f"{pod.namespace}/{pod.name}" for pod in pods))
    plans = read_objects(plan_file, "ConfigMap", parse_record) if plan_file else []
    slices = read_objects(slice_file, "ResourceSlice", parse_published) if slice_file else []
    claims = read_objects(claim_file, "ResourceClaim", _parse_held) if claim_file else []
    return CardObjects(
        nodes,
        pods,
        plans,
        slices=[one for one in slices if one is not None],
        claims=[one for one in claims if one is not None],
    )


def _parse_held(raw: RawObject) -> AllocatedClaim | None:
    return parse_held(raw, GPU_DRIVER)


def _with_lingering(objects: CardObjects, scheduler: str) -> CardObjects:
    try:
        return with_lingering(objects, scheduler)
    except AddressError as error:
        raise click.BadParameter(str(error), param_hint="--scheduler") from None


def _read_cluster(kubeconfig: Kubeconfig | None) -> CardObjects:
    from accelet.cli.reading.objectlists import API_S, list_card_objects  # noqa: PLC0415 - half a second, not for files

    return ask(kubeconfig, list_card_objects(kubeconfig), API_S)
