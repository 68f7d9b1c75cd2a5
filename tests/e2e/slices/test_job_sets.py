"""JobSets by JobSet's own controller, twice as many as there is room for, through faults and kills."""

from pathlib import Path

import pytest

from tests.e2e.cluster.building import Progress
from tests.e2e.slices.job_sets import Load, Site, run_job_sets


@pytest.mark.timeout(2100)
async def test_twenty_job_sets_get_their_slices_whole_through_five_kills(
    site: Site, tmp_path: Path, say: Progress
) -> None:
    await run_job_sets(site, tmp_path, say, Load(job_sets=20, kills=5, hosts=2))
