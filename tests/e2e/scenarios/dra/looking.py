"""What a kubelet shows of claims: its state file and podresources."""

import json
from collections.abc import Callable
from pathlib import Path

import grpc.aio

from accelet.kubelet.api import podresources_pb2 as api
from accelet.kubelet.api import podresources_pb2_grpc as rpc
from tests.e2e.scenarios.transcript import Transcript


async def look(root: Path, transcript: Transcript, pod_name: Callable[[str], str]) -> None:
    """Writes down what is in `root`, a kubelet's folder."""
    checkpoint = json.loads((root / "dra_manager_state").read_text())
    data = json.loads(checkpoint["Data"])
    transcript.add("state", f"{data['kind']} {data['apiVersion']}")
    for claim in sorted(data["ClaimInfoStateList"] or (), key=lambda each: str(each["ClaimName"])):
        pods = ", ".join(sorted(pod_name(uid) for uid in claim["PodUIDs"]))
        state = json.dumps(claim["DriverState"], sort_keys=True)
        transcript.add("state", f"{claim['Namespace']}/{claim['ClaimName']} of {pods}: {state}")
    socket = root / "pod-resources" / "kubelet.sock"
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        listed = await rpc.PodResourcesListerStub(channel).List(api.ListPodResourcesRequest(), timeout=10)
    for pod in sorted(listed.pod_resources, key=lambda each: each.name):
        for container in pod.containers:
            claims = sorted(
                f"{claim.claim_name}: "
                + " ".join(
                    f"{each.driver_name}/{each.pool_name}/{each.device_name}"
                    f"[{','.join(cdi.name for cdi in each.cdi_devices)}]"
                    for each in claim.claim_resources
                )
                for claim in container.dynamic_resources
            )
            transcript.add("list", f"{pod.name}/{container.name} {'; '.join(claims)}")
