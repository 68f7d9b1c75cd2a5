"""What was prepared of claims that are gone is undone, and nothing else is; files are what they must be."""

import asyncio
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.dra.errors import StateError
from accelet.dra.preparing.abandoned import LOOKS_TO_FORGET, find_used
from accelet.dra.running.reconciler import ClaimReconciler
from accelet.dra.running.records import ClaimRecords
from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import NotFoundError, UnavailableError
from accelet.kubelet.errors import PodResourcesUnavailableError
from accelet.kubelet.podresources import ClaimRecord, ContainerRecord, PodRecord
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

GPU = "gpu.accelet.dev"
CARDS = {"gpu-0000-03-00-0": UnitId("0000-03-00.0"), "gpu-0000-04-00-0": UnitId("0000-04-00.0")}

Fate = Literal["as it was", "gone", "another of its name", "allocated anew", "deallocated", "cannot be asked"]
FATES: Sequence[Fate] = (
    "as it was",
    "gone",
    "another of its name",
    "allocated anew",
    "deallocated",
    "cannot be asked",
)


class Later:
    """The API server's claims as they are some time after they were prepared."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.fates: Mapping[str, Fate] = {}

    async def get(self, resource: ApiResource, namespace: str | None, name: str, /) -> bytes:
        fate = self.fates[name]
        if fate == "gone":
            raise NotFoundError("GET", 404, "NotFound", "not found")
        if fate == "cannot be asked":
            raise UnavailableError("GET: no answer")
        claim = json.loads(await self._node.objects.get(resource, namespace, name))
        if fate == "another of its name":
            claim["metadata"]["uid"] = "uid-of-another"
        if fate == "deallocated":
            del claim["status"]["allocation"]
        if fate == "allocated anew":
            claim["status"]["allocation"]["devices"]["results"][0]["device"] += "-tile-0"
        return json.dumps(claim).encode()


class Kept:
    """A node with a claim for each card, all prepared.

    `uses` are the claims that containers have by what the kubelet shows; it shows no pod at all where that is
    None, and beside them one that has none.
    """

    def __init__(self, root: Path) -> None:
        self.node = Node(root, gpus(gpu(3), gpu(4)))
        self.later = Later(self.node)
        self.records = ClaimRecords(self.node.places)
        self.uses: Collection[str] | None = ()
        self.reconciler = ClaimReconciler(GPU, self.records, self.node.claims, self.later, self._show)

    async def look(self, fates: Mapping[str, Fate], uses: Collection[str] | None = ()) -> None:
        self.later.fates, self.uses = fates, uses
        await self.reconciler.compare()

    def left(self) -> set[str]:
        return {entry.name for entry in self.records.read().values()}

    def outdated(self) -> frozenset[UnitId]:
        return self.reconciler.outdated(self.records.read().values())

    async def _show(self) -> list[PodRecord]:
        if self.uses is None:
            return []
        entries = {entry.name: entry for entry in self.records.read().values()}
        given = [entries[name].answers[0].cdi_ids for name in self.uses if name in entries]
        claims = tuple(ClaimRecord("ml", f"claim-{place}", frozenset(ids)) for place, ids in enumerate(given))
        return [
            PodRecord("ml", "agent", (ContainerRecord("main", {}),)),
            PodRecord("ml", "user", (ContainerRecord("main", {}, claims),)),
        ]


_uses = st.none() | st.sets(st.sampled_from(sorted(CARDS)))
looks = st.lists(
    st.tuples(st.fixed_dictionaries({name: st.sampled_from(FATES) for name in CARDS}), _uses), max_size=5
)

Look = tuple[Mapping[str, Fate], Collection[str] | None]


@settings(max_examples=40)
@given(looks)
def test_what_nobody_has_at_two_looks_in_a_row_is_undone_and_nothing_else(seen: list[Look]) -> None:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        asyncio.run(_assert_kept(Path(folder), seen))


async def _assert_kept(root: Path, seen: list[Look]) -> None:
    kept = Kept(root)
    assert all(isinstance(one, tuple) for one in (await kept.node.prepare(*CARDS)).values())
    left = set(CARDS)
    for number, (fates, uses) in enumerate(seen):
        await kept.look(fates, uses)
        lately = seen[max(0, number + 1 - LOOKS_TO_FORGET) : number + 1]
        left -= {name for name in left if len(lately) == LOOKS_TO_FORGET and _is_nobodys(name, lately)}
        assert kept.left() == left
        assert len(kept.node.files()) == len(left)
        held_on = {name for name in left if fates[name] not in ("as it was", "cannot be asked")}
        assert kept.outdated() == {CARDS[name] for name in held_on}


def _is_nobodys(name: str, lately: list[Look]) -> bool:
    return all(
        fates[name] not in ("as it was", "cannot be asked") and uses is not None and name not in uses
        for fates, uses in lately
    )


async def test_a_claim_that_was_deallocated_without_unprepare_frees_its_card(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    (card, _), other = CARDS, dict.fromkeys(CARDS, "as it was")
    await kept.node.prepare(*CARDS)
    for _ in range(LOOKS_TO_FORGET):
        await kept.look({**other, card: "deallocated"})  # type: ignore[dict-item]
    kept.node.objects.devices["next"] = card
    assert isinstance((await kept.node.prepare("next"))["next"], tuple)


async def test_an_allocation_that_is_given_again_while_it_is_looked_at_stays(tmp_path: Path) -> None:
    """Deallocated, and allocated alike by the time its old preparing would be undone."""
    kept = Kept(tmp_path)
    await kept.node.prepare(*CARDS)
    gone: Mapping[str, Fate] = dict.fromkeys(CARDS, "deallocated")
    await kept.look(gone)

    async def show() -> list[PodRecord]:
        await kept.node.prepare(min(CARDS))
        return [PodRecord("ml", "agent", ())]

    later = ClaimReconciler(GPU, kept.records, kept.node.claims, kept.later, show)
    for _ in range(LOOKS_TO_FORGET):
        await later.compare()
    assert kept.left() == {min(CARDS)}
    assert len(kept.node.files()) == 1


async def test_of_a_claim_that_was_allocated_anew_only_the_old_allocation_is_undone(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    card, other = sorted(CARDS)
    await kept.node.prepare(card)
    kept.node.objects.devices[card] = other
    await kept.node.prepare(card)
    assert len(kept.records.read()) == 2
    for _ in range(LOOKS_TO_FORGET):
        await kept.look({card: "as it was", other: "as it was"})
    (left,) = kept.records.read().values()
    assert left.holds[0].device == other
    assert len(kept.node.files()) == 1


async def test_what_the_kubelet_cannot_be_asked_of_is_never_undone(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.node.prepare(*CARDS)

    async def fail() -> list[PodRecord]:
        raise PodResourcesUnavailableError("Nobody answers.")

    reconciler = ClaimReconciler(GPU, kept.records, kept.node.claims, kept.later, fail)
    kept.later.fates = dict.fromkeys(CARDS, "gone")
    for _ in range(3 * LOOKS_TO_FORGET):
        await reconciler.compare()
    assert kept.left() == set(CARDS)


async def test_a_claim_that_is_shown_without_its_devices_may_be_any_allocation(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.node.prepare(*CARDS)
    entries = list(kept.records.read().values())
    claims = (ClaimRecord("ml", entries[0].name, frozenset()),)
    shown = [PodRecord("ml", "user", (ContainerRecord("main", {}, claims),))]
    assert find_used(entries, shown) == frozenset({entries[0].key})


async def test_a_file_that_was_deleted_or_changed_is_mended_and_a_strangers_goes(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.node.prepare(*CARDS)
    before = {path: path.read_bytes() for path in kept.node.files()}
    one, other = before
    one.unlink()
    other.write_text("{}")
    (kept.node.cdi / f"k8s.{GPU}-claim_nobodys.json").write_text("{}")
    await kept.reconciler.mend_files()
    assert {path: path.read_bytes() for path in kept.node.files()} == before


async def test_of_a_damaged_record_nothing_is_undone_and_no_file_removed(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.node.prepare(*CARDS)
    kept.node.places.checkpoint.write_text("damaged")
    for _ in range(LOOKS_TO_FORGET):
        with pytest.raises(StateError):
            await kept.look(dict.fromkeys(CARDS, "gone"))
        with pytest.raises(StateError):
            await kept.reconciler.mend_files()
    assert kept.node.places.checkpoint.read_text() == "damaged"
    assert len(kept.node.files()) == len(CARDS)
