"""One connection for everybody on a node who asks the API server."""

import asyncio
from pathlib import Path

from accelet.fakeapi import FakeApi
from accelet.kube.apiresources import NODES
from accelet.kube.errors import ConfigurationError
from accelet.kube.nodes import parse_node
from accelet.node.apiconnection import ApiConnection
from tests.fakes.manifests import raw_node
from tests.integration.agent.running import until


async def test_everybody_who_waits_gets_the_same_client_once_there_is_a_way(tmp_path: Path) -> None:
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", raw_node())
        path = tmp_path / "kubeconfig"
        connection = ApiConnection(path, first_try_s=0.01)
        failures: list[list[ConfigurationError]] = [[], []]
        waiting = [asyncio.create_task(connection.client(each.append)) for each in failures]
        await until(lambda: all(failures))
        api.write_kubeconfig(path)
        one, other = await asyncio.gather(*waiting)
        assert one is other
        assert parse_node(await one.get(NODES, None, "node")).name == "node"
        connection.close()
