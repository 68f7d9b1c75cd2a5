"""What watching the pods of one node costs: `python -m tests.integration.kube.bench`.

A fake API server runs in this process and the watcher in one of its own, so that only it is measured.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from accelet.fakeapi import Answer, FakeApi, Fault

PODS_PATH = "api/v1/pods"


def pod(number: int, size: int) -> dict[str, Any]:
    """A pod of about `size` bytes of JSON, most of it what nobody here reads."""
    raw: dict[str, Any] = {
        "metadata": {
            "name": f"worker-{number}-abcde",
            "labels": {"app": f"app-{number % 7}", "pod-template-hash": f"{number:010x}"},
            "annotations": {"gas-container-cards": "card0,card1", "gas-ts": str(number)},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs-{number}", "uid": str(number)}
            ],
        },
        "spec": {
            "nodeName": "node-1",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "containers": [
                {
                    "name": name,
                    "image": f"registry.example/{name}@sha256:{'0' * 64}",
                    "env": [{"name": f"VARIABLE_{n}", "value": f"value-{number}-{n}"} for n in range(15)],
                    "resources": {"limits": {"gpu.intel.com/i915": "1", "cpu": "500m", "memory": "1Gi"}},
                }
                for name in ("main", "proxy")
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")],
            "containerStatuses": [
                {"name": name, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "started": True}
                for name in ("main", "proxy")
            ],
        },
    }
    fields: dict[str, Any] = {
        f"f:field-{n}": {".": {}, "f:key": {}} for n in range((size - len(json.dumps(raw))) // 36)
    }
    raw["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": fields}]
    return raw


def memory_mib() -> dict[str, float]:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = dict(line.split(":", 1) for line in text.splitlines())
    return {name: int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM", "RssAnon")}


async def watch(kubeconfig: Path, seconds: float) -> None:
    """The watcher: tells as JSON lines what it measures, after the list and at the end."""
    from accelet.kube.apiresources import PODS  # noqa: PLC0415
    from accelet.kube.client import Client  # noqa: PLC0415  the import is a part of what is measured
    from accelet.kube.podparser import parse_pod  # noqa: PLC0415
    from accelet.kube.watching.reflector import Reflector  # noqa: PLC0415
    from accelet.kube.watching.source import Scope  # noqa: PLC0415

    client = await Client.connect(kubeconfig)
    changes = 0

    def count(_: object) -> None:
        nonlocal changes
        changes += 1

    scope = Scope(PODS, field_selector="spec.nodeName=node-1", starts_from_cache=True)
    reflector = Reflector(client, scope, parse_pod, changed=count)
    task = asyncio.create_task(reflector.run())
    listed = asyncio.create_task(reflector.synced())
    await asyncio.wait({listed}, timeout=seconds)
    tell(pods=len(reflector.store), **memory_mib())
    begun = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(seconds)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = spent.ru_utime + spent.ru_stime - begun.ru_utime - begun.ru_stime
    tell(changes=changes, cpu_s=round(cpu_s, 3), threads=threading.active_count(), **memory_mib())
    task.cancel()


def tell(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def watched(api: FakeApi, folder: Path, seconds: float) -> subprocess.Popen[str]:
    kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
    words = ["-m", "tests.integration.kube.bench", "--watch", str(kubeconfig), "--seconds", str(seconds)]
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)


def measure(pods: int, size: int, seconds: float) -> None:
    with FakeApi(bookmark_s=60.0) as api, tempfile.TemporaryDirectory() as folder:
        for number in range(pods):
            api.state.create(PODS_PATH, "ml", pod(number, size))
        process = watched(api, Path(folder), seconds)
        assert process.stdout is not None
        listed = process.stdout.readline()
        for number in range(int(seconds * 50)):
            key = ("ml", f"worker-{number % pods}-abcde")
            api.state.patch(PODS_PATH, key, "merge-patch", {"metadata": {"labels": {"n": str(number)}}})
            time.sleep(0.018)
        tell(pods=pods, bytes_each=len(json.dumps(pod(0, size))), after_list=json.loads(listed))
        tell(after_changes=json.loads(process.stdout.readline()), requests=len(api.seen))
        process.wait()


def refuse(seconds: float) -> None:
    with FakeApi() as api, tempfile.TemporaryDirectory() as folder:
        api.faults.append(Fault(Answer(403, "Forbidden", "no"), times=1 << 30))
        process = watched(api, Path(folder), seconds)
        process.wait()
        first_s = api.seen[0].at_s
        ages = [round(seen.at_s - first_s, 1) for seen in api.seen]
        tell(status=403, requests_in_10_s=sum(age <= 10 for age in ages), at_s=ages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--watch", type=Path, help="the watcher's side")
    chosen = parser.parse_args()
    if chosen.watch:
        asyncio.run(watch(chosen.watch, chosen.seconds))
    else:
        measure(chosen.pods, chosen.size, chosen.seconds)
        refuse(15.0)


if __name__ == "__main__":
    main()
