"""`accelet doctor`: what is wrong on a node or in a cluster, and how to mend it."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

# The C core writes connection notices to stderr.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
import msgspec

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.verdicts import print_examined
from accelet.cli.options import (
    choose_config,
    choose_kubeconfig,
    kubelet_paths,
    node_options,
    own_kubeconfig_option,
)
from accelet.doctor.cluster.judgement import judge_cluster, judge_nothing
from accelet.doctor.cluster.look import CLUSTER_S, look_at_cluster
from accelet.doctor.examined import Examined, sum_up
from accelet.doctor.findings import Verdict, exit_code
from accelet.doctor.node.agent import judge_agent
from accelet.doctor.node.kubelet import judge_kubelet
from accelet.doctor.node.look import WhereToLook, look_at_node
from accelet.doctor.server import AT_ONCE
from accelet.kube.errors import KubeError

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
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(
    *,
    config: Path | None,
    host_root: Path,
    kubelet_dir: Path,
    pod_resources_dir: Path | None,
    node_name: str,
    http: str,
    kubeconfig: Path | None,
    parts: tuple[Part, ...],
    as_json: bool,
    **_others: object,
) -> None:
    """Look for what is wrong, and say how to mend it. Nothing is changed anywhere.

    Run it on a node, best in the agent's pod, or with a kubeconfig for a whole cluster. It ends with 0 where
    nothing is wrong, with 1 where something is, and with 2 where something could not be looked at.
    """
    chosen = choose_kubeconfig(kubeconfig)
    looked = parts or _choose(kubelet_dir, chosen)
    where = WhereToLook(
        node_name,
        kubelet_paths(kubelet_dir, pod_resources_dir),
        host_root,
        choose_config(config),
        http,
        chosen if "cluster" not in looked else None,
    )
    examination = sum_up(asyncio.run(_examine(looked, where, chosen)))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(examination), indent=2).decode())
    else:
        print_examined(Output(), examination)
    raise SystemExit(exit_code(verdict for one in examination.examined for verdict in one.verdicts))


def _choose(kubelet_dir: Path, kubeconfig: Path | None) -> Sequence[Part]:
    here: list[Part] = []
    if kubelet_dir.is_dir():
        here.append("node")
    if kubeconfig is not None:
        here.append("cluster")
    if not here:
        raise click.UsageError(
            f"there is no {kubelet_dir} here, and no kubeconfig is given: run this on a node, "
            "give --kubelet-dir or --kubeconfig, or set KUBECONFIG"
        )
    return here


async def _examine(parts: Sequence[Part], where: WhereToLook, kubeconfig: Path | None) -> list[Examined]:
    examined = []
    if "node" in parts:
        seen = await look_at_node(where)
        examined.append(Examined("node", seen.name, (*judge_kubelet(seen), *judge_agent(seen))))
    if "cluster" in parts:
        examined.append(Examined("cluster", "", await _judge_cluster(kubeconfig)))
    return examined


async def _judge_cluster(kubeconfig: Path | None) -> tuple[Verdict, ...]:
    from accelet.kube.client import Client  # noqa: PLC0415 - half a second, for those who look at a node

    try:
        client = await Client.connect(kubeconfig, threads=AT_ONCE)
        try:
            return judge_cluster(await look_at_cluster(client))
        finally:
            client.close()
    except KubeError as error:
        return judge_nothing(str(error))
    except TimeoutError:
        return judge_nothing(f"it has not answered within {CLUSTER_S:.0f} s")
