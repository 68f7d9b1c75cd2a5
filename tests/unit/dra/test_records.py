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
from accelet.dra.preparing.checkpoint import LARGEST, render_checkpoint
from accelet.dra.preparing.claimtable import ClaimTable
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
    few = ClaimTable([entry(0, "{}")])
    records.write(few)
    with pytest.raises(StateError, match="would be larger than 67108864 bytes"):
        records.write(ClaimTable([*few.values(), entry(1, "x" * LARGEST)]))
    assert records.read() == few


def _places(folder: Path) -> Places:
    places = Places(folder, folder / "cdi", GPU, "")
    places.folder.mkdir(parents=True, exist_ok=True)
    return places


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(("set", "drop", "settle")), st.integers(0, 4)),
        max_size=30,
    )
)
def test_two_agents_that_take_turns_read_what_the_other_wrote(steps: list[tuple[int, str, int]]) -> None:
    expected: dict[tuple[str, str], Entry] = {}
    with tempfile.TemporaryDirectory(prefix="record-") as name:
        agents = [ClaimRecords(_places(Path(name))) for _ in range(2)]
        for turn, (which, step, number) in enumerate(steps):
            records = agents[which]
            assert records.read() == expected
            one = entry(number, f"as of turn {turn}")
            if step == "settle":
                records.settle()
            else:
                expected = {key: each for key, each in expected.items() if key != one.key}
                expected |= {one.key: one} if step == "set" else {}
                records.write(ClaimTable(expected.values()), is_synced=turn % 2 == 0)
            assert ClaimRecords(_places(Path(name))).read() == expected


def test_a_record_is_never_much_larger_than_what_it_holds(tmp_path: Path) -> None:
    records, places = ClaimRecords(_places(tmp_path)), _places(tmp_path)
    for turn in range(300):
        one = entry(0, f"{turn:0999}")
        records.write(ClaimTable([one]))
        assert places.checkpoint.stat().st_size < 70_000
    assert ClaimRecords(places).read() == {one.key: one}


def test_an_agent_that_ends_leaves_the_record_as_versions_before_read_it(tmp_path: Path) -> None:
    records, places = ClaimRecords(_places(tmp_path)), _places(tmp_path)
    records.settle()
    assert not places.checkpoint.exists()
    both = {one.key: one for one in (entry(0, "{}"), entry(1, "{}"))}
    for count in (1, 2):
        records.write(ClaimTable(list(both.values())[:count]))
    assert places.checkpoint.read_bytes().startswith(b"accelet-dra-checkpoint v2 ")
    records.settle()
    assert places.checkpoint.read_bytes() == render_checkpoint(both.values())
    assert records.read() == both


def test_a_change_that_was_cut_short_is_told_once_and_the_next_one_mends_the_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    places = _places(tmp_path)
    one, other = entry(0, "{}"), entry(1, "{}")
    ClaimRecords(places).write(ClaimTable([one]))
    with places.checkpoint.open("ab") as file:
        file.write(b'change sha256=0123 {"put": [')
    records = ClaimRecords(places)
    assert records.read() == records.read() == {one.key: one}
    assert [record.message for record in caplog.records] == ["the last change of a record was cut short"]
    records.write(ClaimTable([one, other]))
    assert ClaimRecords(places).read() == {one.key: one, other.key: other}


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
