"""Which bookings are in force, for whom, and which of them are served."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.provisioner.bookings.book import MOST_SERVED, BookingBook
from accelet.provisioner.bookings.booking import Booking
from tests.unit.provisioner.test_bookings import booking

OWNERS = st.sampled_from((None, "ann", "bob"))
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("ml", "other")), st.sampled_from("abc"), st.integers(1, 2), st.booleans(), OWNERS
    ),
    max_size=30,
)


def known() -> BookingBook:
    book = BookingBook()
    book.is_known = True
    return book


def _named(namespace: str, name: str, version: int) -> Booking:
    uid = f"{namespace}-{name}-{version}"
    return booking(namespace=namespace, name=name, uid=uid)


@given(CHANGES)
def test_owners_are_of_the_booking_that_is_there_now(
    changes: list[tuple[str, str, int, bool, str | None]],
) -> None:
    book, there, owners = known(), dict[tuple[str, str], Booking](), dict[str, str | None]()
    for namespace, name, version, is_there, owner in changes:
        one = _named(namespace, name, version)
        if is_there:
            before = there.get(one.key)
            if before is not None and before.uid != one.uid:
                owners.pop(before.uid, None)
            book.set(one)
            there[one.key] = one
            book.note_owner(_named(namespace, name, 3 - version), "somebody")
            book.note_owner(one, owner)
            owners[one.uid] = owner
        else:
            book.remove(one.key)
            if (gone := there.pop(one.key, None)) is not None:
                owners.pop(gone.uid, None)
        assert {one.key: one for one in book.all()} == there
        for who in ("ann", "bob", "somebody"):
            for where in ("ml", "other"):
                inside = [one for one in there.values() if one.namespace == where]
                mine = [one for one in inside if owners.get(one.uid) == who]
                newest = max(mine, key=lambda one: (one.created_s, one.name), default=None)
                assert book.of_owner(where, who) == newest
                assert book.may_be_for(where, who) == bool(mine)


def test_a_booking_of_which_nothing_is_found_keeps_slices_no_longer_than_is_waited() -> None:
    book, mine = known(), booking()
    book.set(mine)
    assert book.note_missing(mine, 10.0) == 10.0
    assert book.note_missing(mine, 25.0) == 10.0
    assert book.is_missing(mine)
    assert book.may_be_for("ml", "an-owner")
    book.note_owner(mine, None)
    assert not book.may_be_for("ml", "an-owner")
    book.note_found(mine)
    assert not book.is_missing(mine)
    book.note_missing(mine, 40.0)
    book.set(replace(mine, uid="another-of-that-name"))
    assert not book.is_missing(replace(mine, uid="another-of-that-name"))
    assert book.may_be_for("ml", "an-owner"), "whose this one is has not been looked up"


def test_a_namespace_has_so_many_that_are_served_and_the_oldest_are() -> None:
    book = known()
    many = [booking(name=f"n{number}", uid=f"u{number}") for number in range(MOST_SERVED)]
    for one in many:
        book.set(one)
        book.note_owner(one, None)
    late = booking(name="late", uid="late")
    late = replace(late, created_s=late.created_s + 1.0)
    elsewhere = replace(late, namespace="other", uid="elsewhere")
    book.set(late)
    book.set(elsewhere)
    assert all(book.is_served(one) for one in (*many, elsewhere))
    assert not book.is_served(late)
    assert not book.may_be_for("ml", "an-owner"), "it keeps nothing before its turn"
    book.note_owner(late, "an-owner")
    assert not book.may_be_for("ml", "an-owner")
    book.remove(many[7].key)
    assert book.is_served(late)
    assert book.may_be_for("ml", "an-owner")
