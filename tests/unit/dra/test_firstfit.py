"""Plain first fit gives no hardware twice and no more of a share than there is."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from accelet.dra.names import GPU_DRIVER
from accelet.dra.publishing.build import build_pool
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.slices import render_all
from accelet.fakeapi.firstfit import FirstFit, FitRequest
from tests.unit.dra.strategies import small_gpu_nodes

requests = st.builds(
    FitRequest,
    name=st.just("gpu"),
    type=st.sampled_from(["tile", "gpu", "monitor"]),
    count=st.integers(1, 3),
    amounts=st.fixed_dictionaries({}, optional={"millicores": st.sampled_from(["100", "500", "1000"])}),
)


@given(small_gpu_nodes, st.lists(requests, max_size=12))
def test_nothing_is_given_twice_but_by_shares(node: ServedResource, wanted: list[FitRequest]) -> None:
    pool = build_pool(GPU_DRIVER, "node-1", [node])
    chooser = FirstFit(render_all(pool))
    found = [result for request in wanted for result in chooser.allocate(request) or ()]
    held = [pool.by_name[result["device"]] for result in found]
    for one, other in combinations([device for device in held if device.is_exclusive], 2):
        assert one.name == other.name or one.atoms.isdisjoint(other.atoms)
    for device in {device.name for device in held if device.is_exclusive}:
        taken = [r["consumedCapacity"]["millicores"] for r in found if r["device"] == device]
        assert sum(map(int, taken)) <= 1000
