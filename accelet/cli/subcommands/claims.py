"""`accelet claims`: who holds which devices of DRA drivers, and where claims that wait would get theirs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from accelet.claims.podclaims import parse_claiming_pod
from accelet.claims.requests import parse_claim, parse_claim_template, parse_device_class
from accelet.claims.slices import parse_slice
from accelet.cli.drawing.claims import print_claims
from accelet.cli.drawing.output import Output
from accelet.cli.options import own_kubeconfig_option
from accelet.cli.reading.asking import ask
from accelet.cli.reading.objectfiles import OBJECT_FILE, read_objects
from accelet.kube.errors import KubeError, NotFoundError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.scheduler.claims.outlook import ClaimsView, Objects, foresee

_T = TypeVar("_T")


@click.command("claims")
@own_kubeconfig_option
@click.option(
    "--nodes",
    "node_file",
    type=OBJECT_FILE,
    help="Instead of the API server, with --slices and --classes: `kubectl get nodes -o json`; "
    "- reads the standard input.",
)
@click.option("--slices", "slice_file", type=OBJECT_FILE, help="`kubectl get resourceslices -o json`")
@click.option("--classes", "class_file", type=OBJECT_FILE, help="`kubectl get deviceclasses -o json`")
@click.option("--claims", "claim_file", type=OBJECT_FILE, help="`kubectl get resourceclaims -A -o json`")
@click.option(
    "--templates",
    "template_file",
    type=OBJECT_FILE,
    help="`kubectl get resourceclaimtemplates -A -o json`, for pods that have no claims yet.",
)
@click.option("--pods", "pod_file", type=OBJECT_FILE, help="`kubectl get pods -A -o json`")
@click.option("-n", "--namespace", help="Show this namespace alone.  [default: all of them]")
@click.option("--node", "wanted", metavar="NAME", help="Try this node only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(
    *,
    kubeconfig: Kubeconfig | None,
    node_file: Path | None,
    slice_file: Path | None,
    class_file: Path | None,
    claim_file: Path | None,
    template_file: Path | None,
    pod_file: Path | None,
    namespace: str | None,
    wanted: str | None,
    as_json: bool,
) -> None:
    """Show who holds which devices of any DRA driver, and where claims that wait would get theirs.

    For each node it replays what kube-scheduler 1.36 does, for all claims of a pod together. Only devices are
    judged, not CPU, memory, taints of nodes or affinity. Nothing is changed anywhere.
    """
    files = (node_file, slice_file, class_file, claim_file, template_file, pod_file)
    objects = _read_files(*files) if any(files) else _read_cluster(kubeconfig)
    for note in objects.notes:
        click.echo(note, err=True)
    view = _judge(_on_node(objects, wanted), namespace)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
    else:
        print_claims(Output(), view)


def _judge(objects: Objects, namespace: str | None) -> ClaimsView:
    with Output().progress("judging claims …") as progress:
        return foresee(
            objects,
            namespace,
            progress=lambda done, every: progress.say(f"judging claims … {done} of {every} pods"),
        )


def _on_node(objects: Objects, wanted: str | None) -> Objects:
    if wanted is None:
        return objects
    chosen = [node for node in objects.nodes if node.name == wanted]
    if not chosen:
        raise click.BadParameter(
            f"none of the {len(objects.nodes)} nodes is called {wanted}", param_hint="--node"
        )
    return replace(objects, nodes=chosen)


def _read_files(
    node_file: Path | None,
    slice_file: Path | None,
    class_file: Path | None,
    claim_file: Path | None,
    template_file: Path | None,
    pod_file: Path | None,
) -> Objects:
    if node_file is None or slice_file is None or class_file is None:
        raise click.UsageError(
            "--nodes, --slices and --classes belong together: what claims ask for is in them"
        )
    files = (node_file, slice_file, class_file, claim_file, template_file, pod_file)
    if [str(file) for file in files].count("-") > 1:
        raise click.UsageError("only one file can be read from the standard input")

    def read(file: Path | None, kind: str, parse: Callable[[RawObject], _T]) -> list[_T]:
        return read_objects(file, kind, parse) if file is not None else []

    return Objects(
        read(node_file, "Node", parse_node),
        read(slice_file, "ResourceSlice", parse_slice),
        read(class_file, "DeviceClass", parse_device_class),
        read(claim_file, "ResourceClaim", parse_claim),
        read(template_file, "ResourceClaimTemplate", parse_claim_template),
        read(pod_file, "Pod", parse_claiming_pod),
    )


def _read_cluster(kubeconfig: Kubeconfig | None) -> Objects:
    # Half a second, not for files.
    from accelet.cli.reading.claimlists import list_claim_objects  # noqa: PLC0415
    from accelet.cli.reading.objectlists import API_S  # noqa: PLC0415

    def explain(error: KubeError) -> str:
        if isinstance(error, NotFoundError):
            return "this cluster does not serve resource.k8s.io/v1: Kubernetes 1.34 and newer do"
        return str(error)

    return ask(kubeconfig, list_claim_objects(kubeconfig), API_S, explain)
