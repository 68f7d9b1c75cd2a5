"""What reading devices and claims takes, and finding devices for one claim: `python -m benches.claims`.

By default 5,000 nodes of 16 devices, 70,000 of which are held by claims of their own.
"""

import argparse
import resource
import sys
import time
from typing import Any

from accelet.claims.requests import Claim, DeviceClass, parse_claim
from accelet.claims.slices import ResourceSlice, parse_slice
from accelet.kube.nodes import Node
from accelet.scheduler.claims.outlook import Objects, foresee

_DRIVER = "gpu.example.com"
_PER_NODE = 16
_SELECTOR = (
    f'device.attributes["{_DRIVER}"].type == "gpu" && '
    f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
)


def _slice(node: int) -> ResourceSlice:
    devices: list[dict[str, Any]] = [
        {
            "name": f"gpu-{at}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{at}"},
                "index": {"int": at},
                "numa": {"int": at // 8},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for at in range(_PER_NODE)
    ]
    pool = {"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": f"n{node}", "pool": pool, "devices": devices}
    return parse_slice({"metadata": {"name": f"slice-{node}"}, "spec": spec})


def _holder(number: int) -> Claim:
    node, at = divmod(number, _PER_NODE)
    result = {"request": "gpu", "driver": _DRIVER, "pool": f"n{node}", "device": f"gpu-{at}"}
    return parse_claim(
        {
            "metadata": {"name": f"held-{number}", "namespace": "ml"},
            "spec": {"devices": {}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
    )


def _waiting() -> Claim:
    exactly = {"deviceClassName": "gpu", "count": 4, "selectors": [{"cel": {"expression": _SELECTOR}}]}
    requests = [{"name": "gpu", "exactly": exactly}]
    return parse_claim(
        {"metadata": {"name": "waiting", "namespace": "ml"}, "spec": {"devices": {"requests": requests}}}
    )


def _resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    nodes = parser.parse_args().nodes
    before, started = _resident_mib(), time.process_time()
    slices = [_slice(node) for node in range(nodes)]
    read, size = time.process_time(), _resident_mib()
    claims = [_holder(number) for number in range(nodes * 14)]
    held, larger = time.process_time(), _resident_mib()
    classes = [DeviceClass("gpu", (f'device.driver == "{_DRIVER}"',))]
    objects = Objects([Node(f"n{at}") for at in range(nodes)], slices, classes, [*claims, _waiting()])
    view = foresee(objects)
    done = time.process_time()
    (waiting,) = (one for one in view.outlooks if one.state != "held")
    sys.stdout.write(
        f"{nodes} slices, {nodes * _PER_NODE} devices: {read - started:.1f} s, {size - before:.0f} MiB\n"
    )
    sys.stdout.write(f"{len(claims)} claims that hold one: {held - read:.1f} s, {larger - size:.0f} MiB\n")
    sys.stdout.write(
        f"one more claim, on all nodes: {done - held:.1f} s; {waiting.fitting} nodes would serve it\n"
    )


if __name__ == "__main__":
    main()
