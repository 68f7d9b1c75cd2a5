"""Transcripts of scenarios tell kubelets apart that differ, and none that only took other devices."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.scenarios.transcript import Renaming, Transcript

IDS = [f"gpu-{number}" for number in range(6)]
SETS = st.lists(st.frozensets(st.sampled_from(IDS)), max_size=8)


def renamed(sets: list[frozenset[str]]) -> list[list[str]]:
    renaming = Renaming()
    renaming.names(frozenset(IDS))
    return [renaming.names(each) for each in sets]


@given(SETS, st.permutations(IDS))
def test_other_devices_of_the_same_pattern_read_the_same(
    sets: list[frozenset[str]], others: list[str]
) -> None:
    other = dict(zip(IDS, others, strict=True))
    assert renamed(sets) == renamed([frozenset(other[each] for each in ids) for ids in sets])


@given(SETS)
def test_overlaps_are_kept(sets: list[frozenset[str]]) -> None:
    names = [set(each) for each in renamed(sets)]
    for first, first_names in zip(sets, names, strict=True):
        for second, second_names in zip(sets, names, strict=True):
            assert len(first & second) == len(first_names & second_names)


def test_devices_that_overlap_differently_read_differently() -> None:
    pair = frozenset(IDS[:2])
    assert renamed([pair, frozenset([IDS[0]])]) != renamed([pair, frozenset([IDS[2]])])


def test_uids_sizes_and_the_order_of_independent_lanes_do_not_matter() -> None:
    lines = [("one", "pod 01234567-89ab-cdef-0123-456789abcdef"), ("two", "something else")]
    texts = set()
    for seed in range(8):
        transcript = Transcript()
        transcript.begin("a step")
        for lane, text in random.Random(seed).sample(lines, k=2):
            transcript.add(lane, text)
        texts.add("\n".join(transcript.render()))

    assert texts == {"1. a step\n   one: pod UID\n   two: something else"}


def told(text: str) -> str:
    transcript = Transcript()
    transcript.begin("a step")
    transcript.add("", text)
    return transcript.render()[1]


def test_a_printed_endpoint_reads_the_same_wherever_it_was_in_memory() -> None:
    text = "endpoint &{{{} {0 0}} a.example.com/gpu %s %s {14031015326927229604 58 0x5498020} <nil>} is gone"
    one = text % ("/var/lib/kubelet/device-plugins/gpu.sock", "0x52fb3db010")
    other = text % ("/tmp/fk/device-plugins/gpu.sock", "0xc000a1b2c0")

    assert told(one) == told(other)
    assert told(one).endswith("endpoint &{{{} {0 0}} a.example.com/gpu device-plugins/gpu.sock ...} is gone")
    assert told(one) != told(one.replace("example.com/gpu", "example.com/tpu"))
