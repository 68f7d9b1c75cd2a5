"""`accelet doctor`: what is wrong on a node or in a cluster, and how to mend it."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# The C core writes connection notices to stderr.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
import msgspec

import accelet
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.verdicts import print_examined
from accelet.cli.options import (
    choose_config,
    kubelet_paths,
    node_options,
    own_kubeconfig_option,
)
from accelet.doctor.archive import write_archive
from accelet.doctor.bundle import bundle_files
from accelet.doctor.cluster.seen import ClusterSeen
from accelet.doctor.examined import Examination, Examined, sum_up
from accelet.doctor.findings import exit_code
from accelet.doctor.node.judgement import judge_node
from accelet.doctor.node.look import WhereToLook, look_at_node
from accelet.doctor.node.seen import NodeSeen
from accelet.doctor.server import AT_ONCE
from accelet.kube.errors import KubeError
from accelet.kube.kubeconfig import Kubeconfig

Part = Literal["node", "cluster"]


@click.command()
@node_options
@own_kubeconfig_option
@click.option(
    "--look-at",
    "parts",
    type=click.Choice(["node", "cluster"]),
    multiple=True,
    help="What to look at.  [default: the node where there is a kubelet's directory, the cluster where a "
    "kubeconfig is given]",
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write what was seen into this new file, for who helps you: a .tar.gz without texts of users.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(
    *,
    config: Path | None,
    host_root: Path,
    kubelet_dir: Path,
    kubelet_root_dir: Path | None,
    pod_resources_dir: Path | None,
    node_name: str,
    http: str,
    kubeconfig: Kubeconfig | None,
    parts: tuple[Part, ...],
    bundle: Path | None,
    as_json: bool,
    **_others: object,
) -> None:
    """Look for what is wrong, and say how to mend it. Nothing is changed anywhere.

    Run it on a node, best in the agent's pod, or with a kubeconfig for a whole cluster. It ends with 0 where
    nothing is wrong, with 1 where something is, and with 2 where something could not be looked at.
    """
    looked = parts or _choose(kubelet_dir, kubeconfig)
    where = WhereToLook(
        node_name,
        kubelet_paths(kubelet_dir, kubelet_root_dir, pod_resources_dir),
        host_root,
        choose_config(config),
        http,
        kubeconfig if "cluster" not in looked else None,
    )
    found = asyncio.run(_look(looked, where, kubeconfig))
    examination = sum_up(list(_judge(found, where.name)))
    if bundle is not None:
        _write_bundle(bundle, examination, found)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(examination), indent=2).decode())
    else:
        print_examined(Output(), examination)
    raise SystemExit(exit_code(verdict for one in examination.examined for verdict in one.verdicts))


def _choose(kubelet_dir: Path, kubeconfig: Kubeconfig | None) -> Sequence[Part]:
    here: list[Part] = []
    if kubelet_dir.is_dir():
        here.append("node")
    if kubeconfig is not None:
        here.append("cluster")
    if not here:
        raise click.UsageError(
            f"there is no {kubelet_dir} here, and no kubeconfig (--kubeconfig, KUBECONFIG, ~/.kube/config): "
            "run this on a node, or give --kubelet-dir or --kubeconfig"
        )
    return here


async def _look(parts: Sequence[Part], where: WhereToLook, kubeconfig: Kubeconfig | None) -> "_Found":
    node = await look_at_node(where) if "node" in parts else None
    if "cluster" not in parts:
        return _Found(node)
    # Half a second, and the scheduler's numpy, for those who look at a node alone.
    from accelet.doctor.cluster.look import CLUSTER_S, look_at_cluster  # noqa: PLC0415
    from accelet.kube.client import Client  # noqa: PLC0415

    try:
        client = await Client.connect(kubeconfig, threads=AT_ONCE)
        try:
            return _Found(node, await look_at_cluster(client))
        finally:
            client.close()
    except KubeError as error:
        return _Found(node, problem=str(error))
    except TimeoutError:
        return _Found(node, problem=f"it has not answered within {CLUSTER_S:.0f} s")


@dataclass(frozen=True, slots=True)
class _Found:
    """What was seen; `problem` is why nothing was of the cluster."""

    node: NodeSeen | None = None
    cluster: ClusterSeen | None = None
    problem: str = ""


def _judge(found: _Found, name: str) -> Iterator[Examined]:
    if found.node is not None:
        yield Examined("node", name, judge_node(found.node))
    if found.cluster is None and not found.problem:
        return
    from accelet.doctor.cluster.judgement import judge_cluster, judge_nothing  # noqa: PLC0415 - as above

    if found.cluster is not None:
        yield Examined("cluster", "", judge_cluster(found.cluster))
    else:
        yield Examined("cluster", "", judge_nothing(found.problem))


def _write_bundle(path: Path, examination: Examination, found: _Found) -> None:
    made_s = time.time()
    about = {"format": 1, "accelet": accelet.__version__, "made_s": round(made_s)}
    try:
        write_archive(path, bundle_files(about, examination, found.node, found.cluster), made_s)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--bundle") from None
