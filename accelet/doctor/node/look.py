"""Looks at a node, all of it within a time."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from accelet.agent.config import AgentConfig
from accelet.doctor.node.agentport import ask_agent
from accelet.doctor.node.hardware import read_configuration
from accelet.doctor.node.places import (
    ask_pod_resources,
    holds_directory,
    look_at_checkpoint,
    look_at_folders,
    look_at_sockets,
)
from accelet.doctor.node.seen import NodeSeen, RightSeen, ServerSeen
from accelet.doctor.rights import agent_rights
from accelet.doctor.server import ask_rights, ask_time
from accelet.kube.errors import KubeError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kubelet.paths import KubeletPaths
from accelet.node.inventorymemory import MEMORY_FILE, InventoryMemory

SERVER_S = 20.0


@dataclass(frozen=True, slots=True)
class WhereToLook:
    """As the agent's own options say it."""

    name: str
    paths: KubeletPaths
    host_root: Path
    config: Path | None
    http: str
    kubeconfig: Kubeconfig | Path | None


async def look_at_node(where: WhereToLook) -> NodeSeen:
    """Everything that can be seen of the node; whatever does not answer is seen as such, and no error."""
    paths = where.paths
    memory = InventoryMemory(paths.device_plugins / MEMORY_FILE)
    config, configured = await asyncio.to_thread(read_configuration, where.config, where.host_root, memory)
    kubelet, others = await asyncio.to_thread(look_at_sockets, paths)
    is_running = holds_directory(paths.device_plugins)
    return NodeSeen(
        name=where.name,
        folders=await asyncio.to_thread(look_at_folders, paths, by_dra=bool(config.served_by("dra"))),
        kubelet_socket=kubelet,
        other_sockets=others,
        checkpoint=await asyncio.to_thread(look_at_checkpoint, paths),
        pod_resources=await ask_pod_resources(paths),
        configuration=configured,
        agent=await asyncio.to_thread(ask_agent, where.http, is_running=is_running),
        server=await _ask_server(config, where.kubeconfig),
    )


async def _ask_server(config: AgentConfig, kubeconfig: Kubeconfig | Path | None) -> ServerSeen:
    """What the API server says to the agent's account, where the configuration needs one."""
    purposes = dict(agent_rights(config))
    if not purposes:
        return ServerSeen()
    from accelet.kube.client import Client  # noqa: PLC0415 - half a second, for those who need no API server

    try:
        client = await Client.connect(kubeconfig, threads=4)
        try:
            async with asyncio.timeout(SERVER_S):
                ahead_s = await ask_time(client)
                asked = await ask_rights(client, purposes)
        finally:
            client.close()
    except KubeError as error:
        return ServerSeen(is_wanted=True, problem=str(error))
    except TimeoutError:
        return ServerSeen(is_wanted=True, problem=f"it has not answered within {SERVER_S:.0f} s")
    rights = tuple(RightSeen(str(right), purposes[right], given) for right, given in asked)
    return ServerSeen(is_wanted=True, ahead_s=ahead_s, rights=rights)
