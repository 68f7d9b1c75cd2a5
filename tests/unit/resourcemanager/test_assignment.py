import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DeviceId, UnitId
from accelet.assignments.annotations import read_assignment
from accelet.assignments.assignment import (
    ANY_RESOURCE,
    Assignment,
    AssignmentError,
    Piece,
    Pieces,
    card,
    device,
    unit,
)
from accelet.assignments.gas import CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION, parse_gas
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, parse_own, render_own
from accelet.kube.pods import Container
from tests.fakes.pods import pod
from tests.unit.resourcemanager.gas_texts import render_gas

R = "gpu.intel.com/i915"
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "assignment.schema.json").read_text())


def gas(
    cards: str | None, tiles: str | None = None, *containers: str, ts: str | None = None
) -> Assignment | None:
    found = {CARDS_ANNOTATION: cards, TILES_ANNOTATION: tiles, TIME_ANNOTATION: ts}
    return parse_gas({name: text for name, text in found.items() if text is not None}, containers or ("a",))


def pieces(assignment: Assignment | None, container: str) -> Pieces | None:
    assert assignment is not None
    return assignment.pieces(container, R)


def own(containers: object, **more: object) -> str:
    return json.dumps({"version": 1, "containers": containers, **more})


def one(piece: object) -> str:
    return own({"a": {R: [piece]}})


# gas-*


def test_slots_are_the_containers_in_order() -> None:
    found = gas("card0,card1|card2,card3", None, "a", "b", ts="1700000000123456789")
    assert pieces(found, "a") == (card("card0"), card("card1"))
    assert pieces(found, "b") == (card("card2"), card("card3"))
    assert found is not None
    assert found.decided_ns == 1700000000123456789


def test_tiles_stay_with_the_slot_they_are_in() -> None:
    found = gas("card0|card1,card2", "card0:gt0+gt1|card1:gt1,card2:gt0", "a", "b")
    assert pieces(found, "a") == (card("card0", 0, 1),)
    assert pieces(found, "b") == (card("card1", 1), card("card2", 0))


def test_container_without_tiles_beside_one_with_tiles_keeps_its_whole_card() -> None:
    found = gas("card0|card1", "|card1:gt1", "a", "b")
    assert pieces(found, "a") == (card("card0"),)
    assert pieces(found, "b") == (card("card1", 1),)


def test_empty_slot_is_a_container_given_nothing() -> None:
    found = gas("|card0", None, "a", "b")
    assert (pieces(found, "a"), pieces(found, "b"), pieces(found, "c")) == ((), (card("card0"),), None)


def test_all_empty_tiles_are_whole_cards() -> None:
    assert pieces(gas("card0|", "|", "a", "b"), "a") == (card("card0"),)


def test_pod_without_the_annotations_has_no_assignment() -> None:
    assert gas(None) is None
    assert gas(None, ts="1") is None


def test_nothing_is_written_about_init_containers() -> None:
    written = pod("p", Container("a"), init=(Container("init"),), annotations={CARDS_ANNOTATION: "card0"})
    assert pieces(read_assignment(written), "init") is None
    assert pieces(read_assignment(written), "a") == (card("card0"),)


@pytest.mark.parametrize(
    ("cards", "tiles", "character", "problem"),
    [
        ("card0|gpu1", None, 7, '"gpu1" is no card'),
        ("card0|card", None, 7, "no card"),
        ("card0|card01", None, 7, "no card"),
        ("card0|card-1", None, 7, "no card"),
        ("card0|card\u0661", None, 7, r'"card\u0661" is no card'),
        ("card0|card" + "9" * 50, None, 7, "no card"),
        ("card0|card1 ", None, 7, "no card"),
        ("card0| card1", None, 7, "no card"),
        ("card0|CARD1", None, 7, "no card"),
        ("card0|card1,", None, 13, '"" is no card'),
        ("card0|,card1", None, 7, '"" is no card'),
        ("card0|card1,card1", None, 13, "card1 is there twice"),
        ("card0|card1;card2", None, 7, "no card"),
        ("|card1", "|card1", 2, "names no tiles"),
        ("|card1", "|card1:", 8, '"" is no tile'),
        ("|card1", "|card1:gt", 8, "no tile"),
        ("|card1", "|card1:0", 8, "no tile"),
        ("|card1", "|card1:gt-1", 8, "no tile"),
        ("|card1", "|card1:gt00", 8, "no tile"),
        ("|card1", "|card1:gt128", 8, "at most 127"),
        ("|card1", "|card1:gt" + "1" * 5000, 8, "no tile"),
        ("|card1", "|card1:gt\u0661", 8, "no tile"),
        ("|card1", "|card1:gt0+", 12, '"" is no tile'),
        ("|card1", "|card1:gt0+gt0", 12, "gt0 is there twice"),
        ("|card1", "|card1:gt0:gt1", 8, "no tile"),
        ("|card1", "|card1:gt0,", 12, "names no tiles"),
        ("|card1", "|card2:gt0", 2, "card2 is not among the container's cards"),
        ("|card1", "|card1:gt0,card1:gt1", 12, "card1 is there twice"),
        ("|card1,card2", "|card1:gt0", 11, "card2 of the container's cards has no tiles"),
        ("card1|", "card1:gt0|card1:gt0", 11, "card1 is not among the container's cards"),
    ],
)
def test_malformed_slot_is_refused_with_its_place(
    cards: str, tiles: str | None, character: int, problem: str
) -> None:
    with pytest.raises(AssignmentError) as caught:
        gas(cards, tiles, "a", "b")
    text = str(caught.value)
    annotation = TILES_ANNOTATION if tiles else CARDS_ANNOTATION
    assert text.startswith(f'Annotation {annotation}, slot 2 (container "b"), character {character}: ')
    assert problem in text
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 300


@pytest.mark.parametrize("cards", ["card0", "card0|card1|card2", "", "card0||"])
def test_another_number_of_slots_than_containers_is_refused(cards: str) -> None:
    with pytest.raises(AssignmentError, match="has 2 containers"):
        gas(cards, None, "a", "b")


def test_tiles_without_cards_are_refused() -> None:
    with pytest.raises(AssignmentError, match="without gas-container-cards"):
        gas(None, "card0:gt0")


@pytest.mark.parametrize("ts", ["", "x", "-1", "1.5", "1 ", "\u0661", "1" * 20, "9" * 19, "1_0"])
def test_time_that_is_none_is_refused(ts: str) -> None:
    with pytest.raises(AssignmentError, match="gas-ts"):
        gas("card0", ts=ts)


def test_time_is_a_number_and_not_a_text() -> None:
    found = gas("card0", ts="9")
    assert found is not None
    assert found.decided_ns == 9


def test_huge_annotation_is_refused_at_once() -> None:
    with pytest.raises(AssignmentError, match="more than any object may"):
        gas("card0," * 1_000_000)


# Our own form.


def test_own_form_names_init_containers_units_tiles_and_devices() -> None:
    text = own(
        {
            "init": {R: [{"unit": "0000-03-00.0", "count": 2}]},
            "a": {R: [{"unit": "0000-03-00.0", "tiles": [1, 0]}, {"device": "0000-04-00.0-t1-s0"}]},
        },
        time=5,
    )
    found = parse_own(text, ["init", "a"])
    assert pieces(found, "init") == (unit(UnitId("0000-03-00.0"), count=2),)
    assert pieces(found, "a") == (unit(UnitId("0000-03-00.0"), 0, 1), device(DeviceId("0000-04-00.0-t1-s0")))
    assert found.decided_ns == 5
    assert found.pieces("a", "gpu.intel.com/xe") is None
    assert sum(piece.count for piece in pieces(found, "init") or ()) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "character 1"),
        ("{", "character 2"),
        ("[]", "Expected `object`"),
        ('{"version": 1, "version": 1}', '"version" is there twice'),
        ('{"version": 1, "containers": {"a": {"x/y": [], "x/y": []}}}', '"x/y" is there twice'),
        ('{"version": NaN}', "NaN is no JSON number"),
        ('{"version": ' + "1" * 5000 + "}", "too long a number"),
        ("[" * 100_000, "nested too deeply"),
        (r'"\ud800"', "half a character"),
        (r'{"version": 1, "\udfff": 1, "containers": {"a": {"x/y": [{"unit": "u"}]}}}', "half a character"),
        (r'{"version": 1, "containers": {"a": {"x/y": [{"\ud800": "u"}]}}}', "half a character"),
        (r'{"version": 1, "containers": {"\ud800": {"x/y": [{"unit": "u"}]}}}', "no container"),
        ("x" * 300_000, "more than any object may"),
        (json.dumps({"version": 2}), "reads version 1"),
        (json.dumps({"version": "1"}), "Expected `int`"),
        (json.dumps({"containers": {}}), "version"),
        (json.dumps({"version": 1}), "containers"),
        (own({}), "$.containers"),
        (own({"a": {}}), "$.containers"),
        (own({"a": {R: []}}), "length >= 1"),
        (own({"b": {R: [{"unit": "u"}]}}), 'no container "b"'),
        (own({"a": {"i915": [{"unit": "u"}]}}), '"i915" is no resource name'),
        (own({"a": {R: [{"unit": "u"}]}}, more=1), "unknown field `more`"),
        (own({"a": {R: [{"unit": "u"}]}}, **{"\x07" * 500: 1}), "unknown field"),
        (own({"a": {R: [{"unit": "u"}]}}, time=-1), "$.time"),
        (own({"a": {R: [{"unit": "u"}]}}, time=None), "$.time"),
        (one({"unit": "u", "tile": 1}), "unknown field `tile`"),
        (one({"unit": "a b"}), "unit"),
        (one({"unit": "u\n"}), "unit"),
        (one({"unit": ""}), "unit"),
        (one({"unit": "u" * 64}), "unit"),
        (one({"unit": "u", "tiles": []}), "tiles"),
        (one({"unit": "u", "tiles": [128]}), "tiles"),
        (one({"unit": "u", "tiles": [True]}), "tiles"),
        (one({"unit": "u", "tiles": [0, 0]}), f'containers.a["{R}"][0].tiles: a tile is there twice'),
        (one({"unit": "u", "count": 0}), "count"),
        (one({}), f'containers.a["{R}"][0]: it has to have either unit or device'),
        (one({"unit": "u", "device": "d"}), "either unit or device"),
        (one({"device": "d", "count": 2}), "without tiles or count"),
        (one({"device": "d", "tiles": [0]}), "without tiles or count"),
        (own({"a": {R: [{"unit": "u"}, {"unit": "u"}]}}), f'containers.a["{R}"][1]: u is there twice'),
    ],
)
def test_malformed_own_form_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(AssignmentError) as caught:
        parse_own(text, ["a"])
    assert str(caught.value).startswith(f"Annotation {ASSIGNMENT_ANNOTATION}: ")
    assert problem in str(caught.value)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_own_form_counts_alone_where_both_are_written() -> None:
    written = pod(
        "p",
        Container("a"),
        annotations={ASSIGNMENT_ANNOTATION: one({"unit": "u"}), CARDS_ANNOTATION: "nonsense"},
    )
    assert pieces(read_assignment(written), "a") == (unit(UnitId("u")),)


def test_malformed_own_form_is_not_replaced_by_gas() -> None:
    written = pod(
        "p", Container("a"), annotations={ASSIGNMENT_ANNOTATION: "nonsense", CARDS_ANNOTATION: "card0"}
    )
    with pytest.raises(AssignmentError):
        read_assignment(written)


# For all assignments and texts.

TILES = st.sets(st.integers(0, 127), min_size=1, max_size=4)
CARDS = st.lists(st.integers(0, 999_999), unique=True, max_size=4)


@st.composite
def gas_slots(draw: st.DrawFn) -> Pieces:
    cards = draw(CARDS)
    has_tiles = draw(st.booleans())
    return tuple(card(f"card{number}", *(draw(TILES) if has_tiles else ())) for number in cards)


@given(st.lists(gas_slots(), min_size=1, max_size=5), st.none() | st.integers(0, 2**63 - 1))
def test_rendered_gas_annotations_say_the_same(slots: list[Pieces], ts: int | None) -> None:
    names = [f"c{index}" for index in range(len(slots))]
    assignment = Assignment(
        {name: {ANY_RESOURCE: slot} for name, slot in zip(names, slots, strict=True)}, decided_ns=ts
    )
    assert parse_gas(render_gas(assignment, names), names) == assignment


NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,63}", fullmatch=True)
PIECES = st.builds(lambda name: device(DeviceId(name)), NAMES) | st.builds(
    lambda name, tiles, count: unit(UnitId(name), *tiles, count=count), NAMES, TILES, st.integers(1, 10_000)
)
RESOURCES = st.dictionaries(
    st.sampled_from([R, "gpu.intel.com/xe", "google.com/tpu"]),
    st.lists(PIECES, min_size=1, max_size=3, unique_by=lambda piece: (piece.naming, piece.name)).map(tuple),
    min_size=1,
)


@given(
    st.dictionaries(st.sampled_from(["init", "a", "b"]), RESOURCES, min_size=1),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_rendered_own_form_says_the_same_and_fits_the_schema(
    containers: Mapping[str, Mapping[str, tuple[Piece, ...]]], ts: int | None
) -> None:
    assignment = Assignment(containers, decided_ns=ts)
    text = render_own(assignment)
    assert parse_own(text, ["init", "a", "b"]) == assignment
    assert " " not in text
    jsonschema.validate(json.loads(text), SCHEMA)


GAS_TEXT = st.text(st.sampled_from("cardgt0129:,|+ -\u0661"), max_size=30) | st.text(max_size=20)


@given(GAS_TEXT, GAS_TEXT, GAS_TEXT, st.integers(0, 3))
def test_arbitrary_gas_annotations_raise_nothing_but_the_one_error(
    cards: str, tiles: str, ts: str, containers: int
) -> None:
    found = {CARDS_ANNOTATION: cards, TILES_ANNOTATION: tiles, TIME_ANNOTATION: ts}
    with contextlib.suppress(AssignmentError):
        parse_gas(found, [f"c{index}" for index in range(containers)])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 200) | st.floats() | st.sampled_from(["u", "a b", R]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "containers", "a", R, "unit", "device", "tiles", "count"]), inner
        )
    ),
    max_leaves=8,
)
NEARLY = st.builds(
    lambda piece, extra: {"version": 1, "containers": {"a": {R: [piece, *extra]}}},
    st.fixed_dictionaries(
        {}, optional={"unit": VALUES, "device": VALUES, "tiles": VALUES, "count": VALUES, "more": VALUES}
    ),
    st.lists(st.just({"unit": "w"}), max_size=1),
)


@given(NEARLY | VALUES)
def test_own_form_and_its_schema_refuse_the_same(document: object) -> None:
    fits = jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    try:
        parse_own(json.dumps(document), ["a"])
    except AssignmentError:
        # The schema cannot say that a name stands twice, or which containers the pod has.
        assert not fits or "twice" in json.dumps(document) or '"w"' in json.dumps(document)
    else:
        assert fits


@given(st.text())
def test_arbitrary_text_as_own_form_raises_nothing_but_the_one_error(text: str) -> None:
    with contextlib.suppress(AssignmentError):
        parse_own(text, ["a"])
