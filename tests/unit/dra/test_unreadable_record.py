"""While the record of prepared claims cannot be read: nothing is prepared, everything can be given back."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.dra.errors import DraError, StateError
from accelet.dra.preparing.checkpoint import read_checkpoint
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

FIRST, SECOND, THIRD = CARDS = tuple(f"gpu-0000-0{bus}-00-0" for bus in (3, 4, 5))
RESOURCE = gpus((*gpu(3), *gpu(4), *gpu(5)))


def cut_short(text: bytes) -> bytes:
    return text[: len(text) // 2]


def of_a_later_version(text: bytes) -> bytes:
    name, _, rest = text.partition(b" ")
    return b" ".join([name, b"v999", rest.partition(b" ")[2]])


@pytest.mark.parametrize("damage", [cut_short, of_a_later_version, lambda _: b"", lambda _: b"\xff\xfe\n"])
async def test_unprepare_works_and_takes_the_files_of_its_claims_alone(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    node = Node(tmp_path, RESOURCE)
    await node.prepare(FIRST, SECOND)
    damaged = damage(node.places.checkpoint.read_bytes())
    node.places.checkpoint.write_bytes(damaged)
    assert isinstance((await node.prepare(THIRD))[THIRD], StateError)
    assert await node.unprepare(FIRST) == {FIRST: None}
    assert [SECOND in path.name for path in node.files()] == [True]
    assert await node.unprepare(SECOND, THIRD) == {SECOND: None, THIRD: None}
    assert node.files() == []
    assert node.places.checkpoint.read_bytes() == damaged


async def test_what_was_given_back_meanwhile_leaves_a_record_that_can_be_read_again(tmp_path: Path) -> None:
    node = Node(tmp_path, RESOURCE)
    await node.prepare(FIRST, SECOND)
    whole = node.places.checkpoint.read_bytes()
    node.places.checkpoint.write_bytes(cut_short(whole))
    await node.unprepare(FIRST)
    node.places.checkpoint.write_bytes(whole)
    assert isinstance((await node.prepare(THIRD))[THIRD], tuple)
    kept = {entry.name for entry in read_checkpoint(node.places.checkpoint.read_bytes())}
    assert kept == {SECOND, THIRD}
    assert isinstance((await node.prepare(FIRST))[FIRST], tuple)


async def test_a_folder_in_place_of_the_record_is_one_that_cannot_be_read(tmp_path: Path) -> None:
    node = Node(tmp_path, RESOURCE)
    await node.prepare(FIRST)
    whole = node.places.checkpoint.read_bytes()
    record = node.places.checkpoint
    record.unlink()
    record.mkdir()
    (error,) = (await node.prepare(SECOND)).values()
    assert isinstance(error, DraError)
    assert await node.unprepare(FIRST) == {FIRST: None}
    record.rmdir()
    record.write_bytes(whole)
    await node.prepare(SECOND)
    assert {entry.name for entry in read_checkpoint(record.read_bytes())} == {SECOND}


_steps = st.lists(
    st.tuples(st.sampled_from(["prepare", "unprepare", "damage", "restore"]), st.sampled_from(CARDS)),
    max_size=14,
)


@settings(max_examples=40)
@given(_steps)
def test_after_damage_and_repair_the_record_has_what_is_prepared_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    asyncio.run(_play(tmp_path_factory.mktemp("node"), steps))


async def _play(folder: Path, steps: list[tuple[str, str]]) -> None:
    node = Node(folder, RESOURCE)
    record = node.places.checkpoint
    whole: bytes | None = None
    prepared: set[str] = set()
    for step, card in steps:
        match step:
            case "damage" if whole is None and record.exists():
                whole = record.read_bytes()
                record.write_bytes(b"damaged")
            case "restore" if whole is not None:
                record.write_bytes(whole)
                whole = None
            case "prepare":
                (outcome,) = (await node.prepare(card)).values()
                assert isinstance(outcome, tuple) == (whole is None)
                prepared |= {card} if isinstance(outcome, tuple) else set()
            case "unprepare":
                assert await node.unprepare(card) == {card: None}
                prepared -= {card}
    if whole is not None:
        record.write_bytes(whole)
    await node.unprepare("another")
    known = read_checkpoint(record.read_bytes()) if record.exists() else ()
    assert {entry.name for entry in known} == prepared
    assert {path.name.count(card) for card in prepared for path in node.files()} <= {0, 1}
    assert len(node.files()) == len(prepared)
