"""What a run leaves when it is killed, and that the next one clears it away."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.cluster import cgroups
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.claims import ProcessClaim
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import JOURNAL, sweep

REPOSITORY = Path(__file__).parent.parent.parent


def test_killed_run_leaves_no_process_and_the_next_one_clears_the_rest(binaries: Binaries) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.hold"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        lines = [line.strip() for line in iter(holder.stdout.readline, "ready; Ctrl-C ends it\n")]
        folder = Path(next(line for line in lines if line.startswith("folder: ")).removeprefix("folder: "))
        claims = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
        holder.kill()

    claimed = {kind: [fields for each, fields in claims if each == kind] for kind, _ in claims}
    processes = [ProcessClaim(**fields) for fields in claimed["ProcessClaim"]]
    assert len(processes) >= 7
    wait_until("the processes end by themselves", lambda: not _running(processes), timeout_s=30)
    (cgroup,) = (fields["name"] for fields in claimed["CgroupClaim"])
    (bridge,) = (fields["name"] for fields in claimed["BridgeClaim"])
    assert cgroups.exists(cgroup)

    assert folder.name in sweep()

    assert not folder.exists()
    assert not cgroups.exists(cgroup)
    assert not Path("/sys/class/net", bridge).exists()
    assert not any(folder.name in line for line in Path("/proc/mounts").read_text().splitlines())


def _running(processes: list[ProcessClaim]) -> list[ProcessClaim]:
    return [process for process in processes if process.is_running]
