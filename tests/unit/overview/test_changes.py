"""What is told of a change makes the newer picture of the older one, whatever is in them."""

import json
from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.overview.changes import PictureChange, compare, render_event, whole
from accelet.overview.picture import SECTIONS, NodeBox, Picture, TaskBox, WaitingBox

texts = st.text(max_size=6)
nodes = st.dictionaries(texts, st.builds(NodeBox, problem=texts, is_away=st.booleans()), max_size=4)
waiting = st.dictionaries(
    texts, st.builds(WaitingBox, name=texts, pods=st.integers(0, 3), reason=texts), max_size=4
)
tasks = st.dictionaries(texts, st.builds(TaskBox, name=texts, phase=texts), max_size=4)
pictures = st.builds(Picture, nodes=nodes, waiting=waiting, tasks=tasks)


def after(picture: Picture, change: PictureChange) -> Picture:
    """What a browser makes of it: first what is gone, then what is put."""
    found = {name: dict(getattr(picture, name)) for name in SECTIONS}
    for section, keys in change.gone.items():
        for key in keys:
            del found[section][key]
    for section, boxes in change.put.items():
        found[section].update(boxes)
    return Picture(**found)


@given(pictures, pictures)
def test_change_makes_the_newer_picture_of_the_older(older: Picture, newer: Picture) -> None:
    assert after(older, compare(older, newer)) == newer
    assert after(Picture(), whole(newer)) == newer
    assert compare(newer, newer).is_empty


@given(pictures, pictures, pictures)
def test_who_misses_a_picture_misses_nothing_of_the_next(
    first: Picture, second: Picture, third: Picture
) -> None:
    assert after(first, compare(first, third)) == after(
        after(first, compare(first, second)), compare(second, third)
    )


@given(pictures, st.sampled_from(["nodes", "waiting", "tasks"]))
def test_what_stays_is_not_told_again(picture: Picture, section: str) -> None:
    alone = replace(picture, **{section: {}})
    change = compare(picture, alone)
    assert change.put == {}
    assert change.gone.keys() <= {section}


@given(pictures)
def test_event_is_one_line_of_json_whatever_is_in_it(picture: Picture) -> None:
    lines = render_event("picture", whole(picture), 7).split(b"\n")
    assert [line.partition(b":")[0] for line in lines] == [b"event", b"id", b"data", b"", b""]
    told = json.loads(lines[2].removeprefix(b"data: "))
    assert told["version"] == 7
    assert told["put"].keys() <= {field.name for field in fields(Picture)}
