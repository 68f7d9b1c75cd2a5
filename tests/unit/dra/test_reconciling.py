"""What was prepared of claims that are gone is undone, and nothing else is; files are what they must be."""

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.dra.errors import StateError
from accelet.dra.running.reconciler import LOOKS_TO_FORGET, ClaimReconciler
from accelet.dra.running.records import ClaimRecords
from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import NotFoundError, UnavailableError
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
    """A node with a claim for each card, all prepared; `looks` is what its reconciler did so far."""

    def __init__(self, root: Path) -> None:
        self.node = Node(root, gpus(gpu(3), gpu(4)))
        self.later = Later(self.node)
        self.records = ClaimRecords(self.node.places)
        self.reconciler = ClaimReconciler(GPU, self.records, self.node.claims, self.later)

    async def look(self, fates: Mapping[str, Fate]) -> None:
        self.later.fates = fates
        await self.reconciler.compare()

    def left(self) -> set[str]:
        return {entry.name for entry in self.records.read().values()}


looks = st.lists(st.fixed_dictionaries({name: st.sampled_from(FATES) for name in CARDS}), max_size=5)


@settings(max_examples=25)
@given(looks)
def test_what_is_gone_at_two_looks_in_a_row_is_undone_and_nothing_else(seen: list[dict[str, Fate]]) -> None:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        asyncio.run(_assert_kept(Path(folder), seen))


async def _assert_kept(root: Path, seen: list[dict[str, Fate]]) -> None:
    kept = Kept(root)
    assert all(isinstance(one, tuple) for one in (await kept.node.prepare(*CARDS)).values())
    left = set(CARDS)
    for number, fates in enumerate(seen):
        before = set(left)
        await kept.look(fates)
        lately = seen[max(0, number + 1 - LOOKS_TO_FORGET) : number + 1]
        left -= {name for name in left if len(lately) == LOOKS_TO_FORGET and _is_gone(name, lately)}
        assert kept.left() == left
        assert len(kept.node.files()) == len(left)
        held_on = {name for name in before if fates[name] not in ("as it was", "cannot be asked")}
        assert kept.reconciler.outdated == {CARDS[name] for name in held_on}


def _is_gone(name: str, lately: list[dict[str, Fate]]) -> bool:
    return all(fates[name] in ("gone", "another of its name") for fates in lately)


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
