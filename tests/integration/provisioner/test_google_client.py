"""Google's own client library drives the fake GKE with our pools, and notices nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accelet.provisioner.demand.owners import parse_job
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.offline import plan_offline
from accelet.provisioner.settings import NodeSettings, ProvisionerSettings, SliceClass
from tests.fakegke.server import FakeGke
from tests.unit.provisioner.manifests import job

_CLIENT = "google-cloud-container==2.67.0"
_SCRIPT = Path(__file__).parents[2] / "fakegke" / "google_client.py"
_NODE = NodeSettings(
    service_account="sa@p.iam.gserviceaccount.com",
    disk_type="hyperdisk-balanced",
    disk_size_gb=100,
    boot_disk_kms_key="projects/p/locations/l/keyRings/r/cryptoKeys/k",
    secondary_boot_disk="projects/p/global/images/i",
    networks=("net:sub",),
    tags=("tpu",),
    secure_boot=True,
    version="1.34.1-gke.100",
)
_SETTINGS = ProvisionerSettings(
    version="v1",
    provider="gke",
    tiers=("reservation:projects/p/reservations/r", "spot", "on-demand"),
    zones=("us-east5-a",),
    classes=(
        SliceClass(name="everything", node=_NODE),
        SliceClass(name="spot", tiers=("spot",)),
        SliceClass(name="plain", tiers=("on-demand",)),
        SliceClass(name="flex", tiers=("flex-start",), node=NodeSettings(flex_start_run_s=86400)),
    ),
)


def _bodies() -> list[dict[str, Any]]:
    """Requests that have every field we ever send."""
    bodies: list[dict[str, Any]] = []
    for slice_class, changes in (
        ("everything", {}),
        ("spot", {"tolerations": [{"operator": "Exists"}]}),
        ("flex", {"selector": {"cloud.google.com/gke-flex-start": "true"}}),
        ("plain", {"topology": "2x4", "chips": 8, "pods": 1}),
        ("plain", {"accelerator": "tpu7x", "topology": "2x2x2", "pods": 2}),
    ):
        raw = job(f"job-{len(bodies)}", **changes)
        raw["metadata"]["annotations"] = {"accelet.dev/slice-class": slice_class}
        assert derive_slices(parse_job(raw)).slices
        bodies += [one.body for one in plan_offline([parse_job(raw)], "gke", _SETTINGS).slices]
    return bodies


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_googles_client_takes_our_pools_and_the_fake_gke_for_real(tmp_path: Path) -> None:
    """In an environment of its own: it wants a newer protobuf than the oldest we support."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", _CLIENT], check=True)
    bodies = _bodies()

    with FakeGke() as gke:
        asked = json.dumps({"url": gke.url, "bodies": bodies})
        done = subprocess.run([python, _SCRIPT], input=asked, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert len(seen) == len(bodies) == 5
    for one, body in zip(seen, bodies, strict=True):
        pool = body["nodePool"]
        assert one["operation"] == "CREATE_NODE_POOL"
        assert one["done"] == ["DONE", "DONE"]
        assert one["listed"] == [pool["name"]]
        assert one["status"] == "RUNNING"
        assert one["labels"] == pool["config"]["labels"]
        assert one["nodes"] == pool["initialNodeCount"]
        assert one["taints"] == [[taint["key"], taint["effect"]] for taint in pool["config"]["taints"]]
        assert one["topology"] == pool.get("placementPolicy", {}).get("tpuTopology", "")
