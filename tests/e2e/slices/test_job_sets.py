"""JobSets by JobSet's own controller: more than there is room for, with faults and kills; a large one."""

from pathlib import Path

import pytest

from tests.e2e.cluster.building import Progress
from tests.e2e.slices.job_sets import Load, Site, run_job_sets


@pytest.mark.timeout(2100)
async def test_twenty_job_sets_get_their_slices_whole_through_five_kills(
    site: Site, tmp_path: Path, say: Progress
) -> None:
    await run_job_sets(site, tmp_path, say, Load(job_sets=20, kills=5, hosts=2))


@pytest.mark.timeout(900)
async def test_a_job_set_of_fifty_slices_gets_them_though_five_are_made_at_a_time(
    site: Site, tmp_path: Path, say: Progress
) -> None:
    """GKE makes five pools at a time, in four minutes each; the times are a hundredth of that.

    A slice that counted `hold_s` from its own joining would be given back before the last ones are made.
    """
    times = "most_operations: 5\nhold_s: 6\nsimulated: {create_s: 2.4, join_s: 0.5, delete_s: 0.5}\n"
    await run_job_sets(
        site, tmp_path, say, Load(job_sets=1, kills=0, hosts=2, slices=50, room=1, times=times)
    )
