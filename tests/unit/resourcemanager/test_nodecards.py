"""A node's cards as its annotation says them."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.amd.settings import AmdGpuSettings
from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, TileLink, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.accelerators.simulated import SimulatedSettings
from accelet.assignments.assignment import Assignment, Pieces, unit
from accelet.assignments.cardsschema import make_schema
from accelet.assignments.nodecards import (
    NodeCard,
    NodeCardsError,
    extended_capacity,
    list_node_cards,
    parse_node_cards,
    render_node_cards,
)
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.fakehost.amd import GIB, MI210, MI300X_CPX, write_amd
from accelet.fakehost.nvidia import DGX_A100, T4, uuid_of, write_nvidia
from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import PodUid
from resourcemanager.holdings.assigned import Assignments, count_unassigned
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.holdings.ledger import DENIALS_TO_RELEASE, Holding, InFlight, Ledger
from tests.fakes import pods as fakes

R, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"
ROOT = Path(__file__).parents[3]
SCHEMA = make_schema()

ids = st.from_regex(r"[A-Za-z0-9._-]{1,63}", fullmatch=True).map(UnitId)
texts = st.text(min_size=1, max_size=40)
links = st.builds(TileLink, st.integers(0, 127), ids, st.integers(0, 127))
cards = st.builds(
    NodeCard,
    id=ids,
    resource=st.sampled_from([R, XE, "gpu.example.com/flex"]),
    card=st.none() | st.integers(0, 999_999).map("card{}".format),
    pci=st.none() | texts,
    model=st.none() | texts,
    driver=st.none() | texts,
    tiles=st.integers(1, 128),
    memory_bytes=st.none() | st.integers(0, 2**50),
    numa_node=st.none() | st.integers(0, 1023),
    links=st.lists(links, max_size=4).map(tuple),
    shares=st.integers(0, 10_000),
    unassigned=st.integers(0, 10_000),
    health=st.builds(Health, st.none() | st.text()),
    part_of=st.none() | ids,
    mode=st.none() | texts,
    fabric=st.none() | texts,
)
nodes = st.lists(cards, max_size=9, unique_by=lambda card: card.id).map(tuple)


@given(nodes)
def test_what_is_rendered_is_read_back_and_fits_the_schema(node: tuple[NodeCard, ...]) -> None:
    text = render_node_cards(node)
    assert parse_node_cards(text) == node
    jsonschema.validate(json.loads(text), SCHEMA)


@given(st.text() | st.binary().map(repr))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(NodeCardsError):
        parse_node_cards(text)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({}, "required field `id`"),
        ({"id": "a b", "resource": R}, "matching regex"),
        ({"id": "a\n", "resource": R}, "matching regex"),
        ({"id": "a", "resource": R, "tiles": 0}, ">= 1"),
        ({"id": "a", "resource": R, "tiles": "2"}, "Expected `int`"),
        ({"id": "a", "resource": R, "memory": -1}, ">= 0"),
        ({"id": "a", "resource": R, "card": "card01"}, "matching regex"),
        ({"id": "a", "resource": R, "links": [[0, "b"]]}, "length 3"),
    ],
)
def test_card_that_is_none_is_refused_here_and_by_the_schema(card: object, said: str) -> None:
    document = {"version": 1, "cards": [card]}
    with pytest.raises(NodeCardsError, match=said):
        parse_node_cards(json.dumps(document))
    # Where a pattern's $ matches before a last line break, as in Python, the schema is too kind.
    if "\\n" not in json.dumps(card):
        assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version":2,"cards":[]}', "version 2 is not known here; this accelet reads version 1"),
        ('{"cards":[]}', "version"),
        ('{"version":1,"cards":[{"id":"a","resource":"x"},{"id":"a","resource":"y"}]}', "a is there twice"),
        ("[]", "Expected `object`"),
        ("", "truncated"),
        (" " * (256 * 1024 + 1), "more than any object may"),
        ('{"version":1,"more":' + "[" * 100_000, "recursion"),
    ],
)
def test_document_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(NodeCardsError, match=said):
        parse_node_cards(text)


def test_fields_of_a_later_agent_are_left_to_later_schedulers() -> None:
    text = '{"version":1,"cards":[{"id":"a","resource":"x","temperature":40}],"more":{}}'
    assert parse_node_cards(text) == (NodeCard(UnitId("a"), "x"),)
    jsonschema.validate(json.loads(text), SCHEMA)


def test_checked_in_schema_is_current() -> None:
    assert json.loads((ROOT / "docs/cards.schema.json").read_text()) == json.loads(json.dumps(SCHEMA))


@given(nodes)
def test_capacity_is_that_of_the_healthy_cards_of_each_domain(node: tuple[NodeCard, ...]) -> None:
    found = extended_capacity(node)
    for domain in {card.resource.partition("/")[0] for card in node}:
        well = [card for card in node if card.resource.startswith(f"{domain}/") and card.health.is_healthy]
        assert found[f"{domain}/tiles"] == sum(card.tiles for card in well)
        assert found[f"{domain}/millicores"] == 1000 * len(well)
        mine = [card for card in node if card.resource.startswith(f"{domain}/")]
        if all(card.memory_bytes is None for card in mine):
            assert f"{domain}/memory.max" not in found
        else:
            assert found[f"{domain}/memory.max"] == sum(card.memory_bytes or 0 for card in well)
    assert {name.partition("/")[0] for name in found} == {card.resource.partition("/")[0] for card in node}


def scan(unit_kind: str = "card", **of_first: object) -> Inventory:
    described = [
        {
            "pci": f"0000-0{index}-00.0",
            "tiles": 2,
            "nodes": [{"path": "/dev/null"}],
            **(of_first if not index else {}),
        }
        for index in range(2)
    ]
    settings = msgspec.convert({"cards": described, "shares": 3, "unit": unit_kind}, SimulatedSettings)
    return settings.backend().scan(Path("/"))


INVENTORY = scan()
FIRST, SECOND = INVENTORY.by_unit


def test_cards_are_told_as_they_were_found() -> None:
    link = {"tile": 1, "to": "0000-01-00.0", "to_tile": 0}
    inventory = scan(memory_mib=1024, numa_node=1, device_id="0x0bd5", links=[link])
    first, second = list_node_cards(R, inventory, {SECOND: 2})
    assert first == NodeCard(
        id=FIRST,
        resource=R,
        card="card0",
        pci="0000:00:00.0",
        model="0x0bd5",
        driver="i915",
        tiles=2,
        memory_bytes=2**30,
        numa_node=1,
        links=(TileLink(1, SECOND, 0),),
        shares=3,
    )
    assert (second.unassigned, second.links) == (2, (TileLink(0, FIRST, 1),))


def test_card_is_as_well_as_its_worst_share() -> None:
    devices = list(INVENTORY.devices)
    devices[1] = replace(devices[1], health=Health("it is sick"))
    told = list(list_node_cards(R, Inventory(tuple(devices)), {}))
    assert [card.health for card in told] == [Health("it is sick"), HEALTHY]


def test_what_is_handed_out_by_tiles_or_is_no_gpu_is_no_card() -> None:
    assert list(list_node_cards(R, scan("tile"), {})) == []
    file = Device(DeviceId("dev-fuse"), UnitId("dev-fuse"))
    assert list(list_node_cards("a.b/fuse", Inventory((file,)), {})) == []


def test_nvidias_gpus_are_cards_without_a_drm_name(tmp_path: Path) -> None:
    inventory = NvidiaGpuSettings(shares=4).backend().scan(write_nvidia(tmp_path, T4))
    told = tuple(list_node_cards("nvidia.com/gpu", inventory, {}))
    assert told[0] == NodeCard(
        id=UnitId(uuid_of(0)),
        resource="nvidia.com/gpu",
        pci="0000:00:1b.0",
        model="Tesla T4",
        driver="nvidia",
        numa_node=0,
        shares=4,
    )
    assert extended_capacity(told) == {"nvidia.com/tiles": 4, "nvidia.com/millicores": 4000}
    assert parse_node_cards(render_node_cards(told)) == told


def test_mig_instances_are_cards_that_say_of_which_gpu(tmp_path: Path) -> None:
    inventory = NvidiaGpuSettings(unit="mig").backend().scan(write_nvidia(tmp_path, DGX_A100))
    told = tuple(list_node_cards("nvidia.com/mig", inventory, {}))
    assert [(card.part_of, card.mode) for card in told] == [
        *[(uuid_of(2), "mig")] * 3,
        (uuid_of(5), "mig"),
    ]
    assert parse_node_cards(render_node_cards(told)) == told


def test_amds_gpus_tell_their_hive_and_partitions_their_gpu_and_mode(tmp_path: Path) -> None:
    whole = AmdGpuSettings().backend().scan(write_amd(tmp_path / "whole", MI210))
    told = tuple(list_node_cards("amd.com/gpu", whole, {}))
    assert [card.fabric for card in told] == ["hive-0000000000000007"] * 4 + ["hive-0000000000000008"] * 4
    assert {(card.part_of, card.mode, card.memory_bytes) for card in told} == {(None, None, 64 * GIB)}
    assert extended_capacity(told)["amd.com/memory.max"] == 8 * 64 * GIB

    cut = AmdGpuSettings().backend().scan(write_amd(tmp_path / "cut", MI300X_CPX))
    told = tuple(list_node_cards("amd.com/cpx_nps4", cut, {}))
    assert len(told) == 63
    assert (told[9].id, told[9].part_of, told[9].mode) == ("0000-26-00.0-p1", "0000-26-00.0", "cpx_nps4")
    assert told[9].memory_bytes == 24 * GIB
    assert parse_node_cards(render_node_cards(told)) == told


def device(unit_id: UnitId, share: int = 0) -> DeviceId:
    return DeviceId(f"{unit_id}-s{share}")


def pod(uid: str, pieces: Mapping[str, Pieces], *, phase: str = "Running") -> Pod:
    names = ["main", *(name for name in pieces if name != "main")]
    said = render_own(Assignment({name: {R: some} for name, some in pieces.items()})) if pieces else None
    return fakes.pod(
        uid,
        *(Container(name, limits={R: 1}) for name in names),
        uid=uid,
        phase=phase,
        annotations={} if said is None else {ASSIGNMENT_ANNOTATION: said},
    )


def held(*holders: tuple[str, str, DeviceId]) -> Ledger:
    holdings: dict[ContainerKey, Holding] = {}
    for uid, container, id_ in holders:
        key = ContainerKey(PodUid(uid), container)
        before = holdings.get(key)
        holdings[key] = Holding(key, frozenset({id_}) | (before.device_ids if before else frozenset()))
    return Ledger(R, holdings)


def count(ledger: Ledger, *pods: Pod) -> Mapping[UnitId, int]:
    by_uid = {PodUid(one.uid): one for one in pods}
    found = count_unassigned(ledger, INVENTORY, by_uid, Assignments())
    return {unit_id: number for unit_id, number in found.items() if number}


def test_holders_without_an_assignment_are_counted() -> None:
    ledger = held(
        ("a", "main", device(FIRST)), ("b", "main", device(FIRST, 1)), ("b", "main", device(SECOND))
    )
    assigned = pod("a", {"main": (unit(FIRST, 1),)})
    assert count(ledger, assigned, pod("b", {})) == {FIRST: 1, SECOND: 1}


def test_holder_of_another_card_than_it_is_assigned_sees_that_card_whole() -> None:
    ledger = held(("a", "main", device(SECOND)))
    assert count(ledger, pod("a", {"main": (unit(FIRST, 1),)})) == {SECOND: 1}


def test_holder_that_nobody_knows_counts() -> None:
    assert count(held(("gone", "main", device(FIRST)))) == {FIRST: 1}
    unknown = Ledger(R, in_flight=(InFlight("token", frozenset({device(FIRST)})),))
    assert count(unknown) == {FIRST: 1}


def test_container_that_is_assigned_speaks_for_those_of_its_pod_it_has_the_device_from() -> None:
    ledger = held(("a", "init", device(FIRST)), ("a", "main", device(FIRST)))
    assert count(ledger, pod("a", {"main": (unit(FIRST, 1),)})) == {}
    ledger = held(("a", "init", device(FIRST, 1)), ("a", "main", device(FIRST)))
    assert count(ledger, pod("a", {"main": (unit(FIRST, 1),)})) == {FIRST: 1}


def test_who_has_ended_or_was_released_holds_nothing() -> None:
    ledger = held(("a", "main", device(FIRST)))
    assert count(ledger, pod("a", {}, phase="Succeeded")) == {}
    key = ContainerKey(PodUid("a"), "main")
    released = Holding(key, frozenset({device(FIRST)}), denials=DENIALS_TO_RELEASE)
    assert count(Ledger(R, {key: released})) == {}


def test_documented_annotations_are_ones() -> None:
    page = (ROOT / "docs/cards.md").read_text()
    intels, others = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for example in (intels, others):
        jsonschema.validate(json.loads(example), SCHEMA)
    first, second = parse_node_cards(intels)
    assert first.links == (TileLink(0, second.id, 1),)
    assert [card.mode for card in parse_node_cards(others)] == ["mig", "cpx_nps4"]
    fields = {
        name
        for row in re.findall(r"^\| (`[^|]*) \| ", page, re.MULTILINE)
        for name in re.findall("`(.*?)`", row)
    }
    assert fields >= SCHEMA["$defs"]["card"]["properties"].keys() | {"version"}
