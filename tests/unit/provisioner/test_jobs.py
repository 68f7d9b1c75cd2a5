"""Which Jobs two owners make, by the book and by a look at all requests."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import SliceOwner, SliceRequestSpec, SliceRequestStatus, SliceSet
from accelet.provisioner.books.jobs import JobBook
from accelet.provisioner.record import SliceRequest


def _request(number: int, job: int, owner: str, slice_set: str) -> SliceRequest:
    spec = SliceRequestSpec(
        accelerator="tpu-v6e-slice",
        topology="2x2",
        chips_per_pod=4,
        slice_set=SliceSet(name=slice_set, size=1),
        owner=SliceOwner(api_version="v1", kind="JobSet", name=owner, uid=owner, job=f"job-{job}"),
    )
    uid = f"uid-{number}"
    return SliceRequest("ml", f"slice-{number}", uid, "1", (), False, False, spec, SliceRequestStatus())


_requests = st.builds(
    _request, st.integers(0, 5), st.integers(0, 1), st.sampled_from("abc"), st.sampled_from("xyz")
)


@given(st.lists(st.tuples(_requests, st.booleans()), max_size=16))
def test_contested_jobs_and_requests_of_an_owner_are_those_found_by_a_look_at_all(
    changes: list[tuple[SliceRequest, bool]],
) -> None:
    book, known = JobBook(), dict[tuple[str, str], SliceRequest]()
    for request, stays in changes:
        if (former := known.pop(request.key, None)) is not None:
            book.remove(former)
        if stays:
            book.add(request)
            known[request.key] = request
    owners = {one.key: one.spec.owner for one in known.values() if one.spec.owner is not None}
    for slice_set in "xyz":
        jobs = {owner.job for key, owner in owners.items() if known[key].spec.slice_set.name == slice_set}
        contested = {
            job for job in jobs if len({owner.uid for owner in owners.values() if owner.job == job}) > 1
        }
        assert set(book.contested(("ml", slice_set))) == {("ml", job) for job in contested}
    for job in ("job-0", "job-1"):
        of_it = [known[key] for key, owner in sorted(owners.items()) if owner.job == job]
        assert book.of_jobs([("ml", job)]) == of_it
    for uid in "abc":
        of_owner = {key for key, owner in owners.items() if owner.uid == uid}
        assert {one.key for one in book.of_owner(uid)} == of_owner
