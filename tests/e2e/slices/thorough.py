"""What `make e2e-provisioner` runs of many JobSets; named so that `make e2e` does not collect it.

ACCELET_SLICES_JOB_SETS and ACCELET_SLICES_KILLS make it smaller.
"""

import os
from pathlib import Path

import pytest

from tests.e2e.cluster.building import Progress
from tests.e2e.slices.job_sets import Load, Site, run_job_sets

JOB_SETS = int(os.environ.get("ACCELET_SLICES_JOB_SETS", "50"))
KILLS = int(os.environ.get("ACCELET_SLICES_KILLS", "50"))

pytestmark = pytest.mark.timeout(7200)


@pytest.mark.parametrize("kills", [0, KILLS], ids=["undisturbed", "killed"])
async def test_every_job_set_gets_its_slices_whole_or_waits(
    site: Site, tmp_path: Path, say: Progress, kills: int
) -> None:
    await run_job_sets(site, tmp_path, say, Load(JOB_SETS, kills))
