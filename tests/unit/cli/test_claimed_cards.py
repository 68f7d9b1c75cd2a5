"""Cards that are served through DRA: shown as they were published, held as claims hold them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from accelet.cli import main
from accelet.dra.names import GPU_DRIVER
from accelet.dra.preparing.claim import AllocatedClaim, parse_held
from accelet.dra.publishing.build import build_pool
from accelet.dra.publishing.published import PublishedSlice, newest_gpus, parse_published
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.slices import render_all
from accelet.dra.publishing.taints import taints_of
from accelet.fakeapi.firstfit import FirstFit, FitRequest
from accelet.kube.errors import MalformedObjectError
from accelet.overview.claimedcards import with_claimed
from accelet.scheduler.cards.view import NO_CARDS, ClusterView, NodeCardsView
from tests.fakes.manifests import raw_node
from tests.unit.dra.strategies import GIB, gpu, gpus, small_gpu_nodes

Raw = dict[str, Any]
NODE = "node-1"

requests = st.builds(
    FitRequest,
    name=st.just("gpu"),
    type=st.sampled_from(["tile", "gpu", "monitor"]),
    count=st.integers(1, 3),
    amounts=st.fixed_dictionaries({}, optional={"millicores": st.sampled_from(["100", "500", "1000"])}),
)


def slices_of(resource: ServedResource, generation: int = 1) -> list[Raw]:
    pool = build_pool(GPU_DRIVER, NODE, [resource]).with_taints(taints_of([resource]))
    bodies = [json.loads(json.dumps(body)) for body in render_all(pool)]
    for number, body in enumerate(bodies):
        body["metadata"] = {"name": f"slice-{number}"}
        body["spec"]["pool"]["generation"] = generation
    return bodies


def claim(name: str, *results: Mapping[str, Any]) -> Raw:
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "status": {"allocation": {"devices": {"results": list(results)}}},
    }


def given_device(device: str, **amounts: str) -> Raw:
    consumed = {"consumedCapacity": amounts, "shareID": f"share-{len(amounts)}"} if amounts else {}
    return {"request": "gpu", "driver": GPU_DRIVER, "pool": NODE, "device": device, **consumed}


def view(slices: Sequence[Raw], claims: Sequence[Raw]) -> ClusterView:
    bare = ClusterView((NodeCardsView(NODE, (), NO_CARDS, ()), NodeCardsView("other", (), NO_CARDS, ())), ())
    return with_claimed(bare, published(slices), held(claims))


def published(slices: Sequence[Raw]) -> list[PublishedSlice]:
    return [one for raw in slices if (one := parse_published(raw)) is not None]


def held(claims: Sequence[Raw]) -> list[AllocatedClaim]:
    return [one for raw in claims if (one := parse_held(raw, GPU_DRIVER)) is not None]


@given(small_gpu_nodes, st.lists(requests, max_size=12))
def test_every_tile_has_the_holders_it_was_given_to(node: ServedResource, wanted: list[FitRequest]) -> None:
    pool = build_pool(GPU_DRIVER, NODE, [node])
    chooser = FirstFit(render_all(pool))
    claims = [
        claim(f"claim-{number}", *results)
        for number, request in enumerate(wanted)
        if (results := chooser.allocate(request))
    ]
    expected: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for one in held(claims):
        for result in one.results:
            device = pool.by_name[result.device]
            if device.is_exclusive:
                for _, tile in device.atoms:
                    expected[str(device.attributes["card"]), tile].add(f"ml/{one.name}")
    shown = view(slices_of(node), claims)
    found = {
        (card.id, tile.tile): set(tile.holders)
        for card in shown.nodes[0].cards
        for tile in card.tiles
        if tile.holders
    }
    assert found == expected
    assert not any(card.conflicts for card in shown.nodes[0].cards)
    assert all(card.millicores_free >= 0 for card in shown.nodes[0].cards)
    total = sum(len(card.tiles) for card in shown.nodes[0].cards)
    assert sum(one.tiles for one in shown.totals) == total
    assert shown.nodes[1].problem == NO_CARDS


def test_a_tile_and_a_share_are_counted_and_what_is_left() -> None:
    node = gpus(gpu(0x40, tiles=2, memory=128 * GIB), gpu(0x41, tiles=2, memory=128 * GIB))
    claims = [
        claim("tile", given_device("gpu-0000-40-00-0-tile-1", millicores="1k", memory="0")),
        claim("quarter", given_device("gpu-0000-41-00-0", millicores="250", memory="8Gi")),
        claim("watcher", given_device("gpu-0000-41-00-0-monitor")),
    ]
    first, second = view(slices_of(node), claims).nodes[0].cards
    assert [tile.state for tile in first.tiles] == ["free", "held"]
    assert (first.millicores_free, first.memory_free_bytes) == (500, 64 * GIB)
    assert [tile.state for tile in second.tiles] == ["shared", "shared"]
    assert (second.millicores_free, second.memory_free_bytes) == (750, 120 * GIB)
    assert [holder.container for holder in (*first.holders, *second.holders)] == ["ml/tile", "ml/quarter"]


def test_what_cannot_be_held_together_is_told() -> None:
    node = gpus(gpu(0x40, tiles=2))
    whole, tile = given_device("gpu-0000-40-00-0", millicores="1k"), given_device("gpu-0000-40-00-0-tile-0")
    (card,) = view(slices_of(node), [claim("a", whole), claim("b", tile)]).nodes[0].cards
    assert card.conflicts == ("it is held whole and in tiles at once",)
    assert [one.state for one in card.tiles] == ["contested", "shared"]
    (card,) = view(slices_of(node), [claim("a", tile), claim("b", tile)]).nodes[0].cards
    assert card.conflicts == ("2000 of 1000 millicores of tile 0 are held",)


def test_a_device_that_is_not_published_is_told_of_and_other_drivers_are_not() -> None:
    node = gpus(gpu(0x40))
    foreign = {**given_device("gpu-0000-40-00-0"), "driver": "gpu.example.com"}
    shown = view(slices_of(node), [claim("lost", given_device("gpu-0000-55-00-0")), claim("else", foreign)])
    assert [(stray.container, stray.devices) for stray in shown.nodes[0].strays] == [
        ("ml/lost", "gpu-0000-55-00-0")
    ]
    assert shown.nodes[0].cards[0].is_free


def test_only_the_newest_generation_counts() -> None:
    old, new = gpus(gpu(0x40), gpu(0x41)), gpus(gpu(0x41))
    found = newest_gpus(published([*slices_of(new, 2), *slices_of(old, 1)]))
    assert [one.name for one in found[NODE]] == ["gpu-0000-41-00-0"]


def test_a_slice_of_impossible_figures_is_refused_or_bounded() -> None:
    (body,) = [one for one in slices_of(gpus(gpu(0x40, memory=GIB))) if "devices" in one["spec"]]
    device = next(each for each in body["spec"]["devices"] if each["name"] == "gpu-0000-40-00-0")
    device["attributes"]["tiles"] = {"int": 10**12}
    parsed = parse_published(body)
    assert parsed is not None
    assert parsed.gpus[0].tiles == 256
    device["capacity"]["memory"]["value"] = "1e99"
    with pytest.raises(MalformedObjectError, match="an impossible amount"):
        parse_published(body)


def run(folder: Path, *flags: str, **files: Sequence[Raw]) -> Result:
    arguments = list(flags)
    for name, items in files.items():
        (folder / name).write_text(json.dumps({"items": list(items)}))
        arguments += [f"--{name}", str(folder / name)]
    return CliRunner().invoke(main, ["cards", *arguments], catch_exceptions=False)


def test_the_command_shows_claims_from_files(tmp_path: Path) -> None:
    tile = claim("tile", given_device("gpu-0000-40-00-0-tile-1"))
    result = run(
        tmp_path,
        nodes=[raw_node(NODE)],
        pods=[],
        slices=slices_of(gpus(gpu(0x40, tiles=2))),
        claims=[tile],
    )
    assert result.exit_code == 0
    assert "node-1  1 of 2 tiles free, 0 of 1 card wholly free" in result.stdout
    assert "tile 1 ml/tile" in result.stdout
    assert "gpu.accelet.dev  1 of 2 tiles free" in result.stdout


def test_slices_and_claims_belong_together(tmp_path: Path) -> None:
    result = run(tmp_path, nodes=[], pods=[], slices=[])
    assert result.exit_code == 2
    assert "--slices and --claims belong together" in result.stderr
