"""The record of prepared claims, and CDI files, whatever somebody else has made of them."""

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.dra.errors import StateError
from accelet.dra.preparing.cdi import file_name
from accelet.dra.preparing.checkpoint import LARGEST
from accelet.dra.preparing.entry import Entry
from accelet.dra.running.places import Places
from accelet.dra.running.records import ClaimRecords

GPU = "gpu.accelet.dev"


async def test_a_lock_that_cannot_be_opened_is_said_in_a_sentence(tmp_path: Path) -> None:
    places = Places(tmp_path / "kubelet", tmp_path / "cdi", GPU, "")
    (tmp_path / "kubelet").write_text("no folder")
    records = ClaimRecords(places)
    with pytest.raises(StateError, match="cannot be opened"):
        await records.do(records.read)


def test_a_file_that_cannot_be_swept_is_said_in_a_sentence(tmp_path: Path) -> None:
    places = Places(tmp_path / "kubelet", tmp_path / "cdi", GPU, "")
    (tmp_path / "cdi" / f"k8s.{GPU}-claim_old.json").mkdir(parents=True)
    with pytest.raises(StateError, match="cannot be removed"):
        ClaimRecords(places).sweep({})


async def test_the_record_stays_ones_own_until_what_was_begun_has_ended(tmp_path: Path) -> None:
    """A thread cannot be stopped: whoever waited for it may go, the next one waits for its end."""
    records = ClaimRecords(Places(tmp_path / "kubelet", tmp_path / "cdi", GPU, ""))
    begun, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def slow() -> None:
        begun.set()
        assert may_end.wait(60)
        order.append("first")

    first = asyncio.create_task(records.do(slow))
    await asyncio.to_thread(begun.wait, 60)
    second = asyncio.create_task(records.do(lambda: order.append("second")))
    for _ in range(2):  # who is told twice to end still waits
        first.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([second], timeout=0.2)
    assert order == []
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert order == ["first", "second"]


def test_a_record_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "cdi", GPU, "")
    places.folder.mkdir(parents=True)
    records = ClaimRecords(places)
    few = {one.key: one for one in [entry(0, "{}")]}
    records.write(few)
    with pytest.raises(StateError, match="would be larger than 67108864 bytes"):
        records.write({one.key: one for one in [*few.values(), entry(1, "x" * LARGEST)]})
    assert records.read() == few


_names = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True).filter(lambda name: name not in (".", ".."))
_contents = st.binary(max_size=200) | st.just(b"") | st.just(b"x" * (1 << 20))


def entry(number: int, cdi: str) -> Entry:
    return Entry(
        uid=f"uid-{number}",
        digest="0123456789abcdef",
        namespace="ml",
        name=f"claim-{number}",
        phase="completed",
        holds=(),
        answers=(),
        cdi=cdi,
        has_environment=False,
        boot="",
    )


@given(
    st.dictionaries(_names, _contents, max_size=4),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=3),
    st.data(),
)
def test_cdi_files_are_what_claims_have_whatever_was_there(
    strange: dict[str, bytes], documents: list[str], data: st.DataObject
) -> None:
    """Files of entries are mended, files of the driver that nobody has go, those of others stay."""
    entries = {one.key: one for one in (entry(number, text) for number, text in enumerate(documents))}
    own = {file_name(GPU, one.uid, one.digest): one.cdi.encode() for one in entries.values()}
    nobodys = f"k8s.{GPU}-claim_nobody.json"
    with tempfile.TemporaryDirectory(prefix="cdi-") as name:
        folder = Path(name, "cdi")
        folder.mkdir()
        records = ClaimRecords(Places(Path(name, "kubelet"), folder, GPU, ""))
        there = dict(strange)
        there |= {path: data.draw(_contents) for path in (*own, nobodys) if data.draw(st.booleans())}
        for path, content in there.items():
            (folder / path).write_bytes(content)
        records.write_cdi(entries.values())
        gone = records.sweep(entries)
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        foreign = {path: there[path] for path in strange if not path.startswith(f"k8s.{GPU}")}
        assert {path: content for path, content in found.items() if path in own} == own
        assert {path: content for path, content in found.items() if path in foreign} == foreign
        assert set(found) == set(own) | set(foreign)
        assert gone == ([nobodys] if nobodys in there else [])
        assert records.write_cdi(entries.values()) == 0
