"""A bridge with an address of its own for one node: the kubelet refuses 127.0.0.1 as a node's address."""

import ipaddress
import json
import secrets
import subprocess
from dataclasses import dataclass

from tests.e2e.cluster.claims import BridgeClaim
from tests.e2e.cluster.workspace import Workspace

SUBNETS = ipaddress.IPv4Network("10.231.0.0/16")


@dataclass(frozen=True, slots=True)
class Bridge:
    """Nothing outside this machine has a route to it."""

    name: str
    subnet: ipaddress.IPv4Network

    @property
    def address(self) -> str:
        """The machine's own address on the bridge."""
        return str(self.subnet[1])

    @classmethod
    def create(cls, workspace: Workspace, prefix: str) -> "Bridge":
        """`prefix` leaves room for a few digits in the 15 bytes of an interface name."""
        subnet = _free_subnet()
        bridge = cls(f"{prefix}-{subnet[0].packed[2]}", subnet)
        workspace.claim(BridgeClaim(bridge.name))
        _ip("link", "add", bridge.name, "type", "bridge")
        _ip("address", "add", f"{bridge.address}/{bridge.subnet.prefixlen}", "dev", bridge.name)
        _ip("link", "set", bridge.name, "up")
        return bridge


def _free_subnet() -> ipaddress.IPv4Network:
    """One this machine has no address in; by lot, for runs that start at the same moment."""
    taken = [
        ipaddress.ip_address(address["local"])
        for interface in json.loads(_ip("-json", "-4", "address", "show"))
        for address in interface["addr_info"]
    ]
    subnets = SUBNETS.subnets(new_prefix=24)
    return secrets.choice([each for each in subnets if not any(address in each for address in taken)])


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
