import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from accelet.accelerators.device import Health, UnitId
from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.cli import main
from accelet.scheduler.cards.view import CardView, HolderView, NodeCardsView, StrayView, TileView, TotalView
from accelet.scheduler.gangs.grouping import GATE_PREFIX, GangKey
from accelet.scheduler.record import Placement, Record
from tests.fakes.manifests import Raw, raw_container, raw_node, raw_pod

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DOCUMENT = Path(__file__).parent.parent.parent.parent / "docs" / "scheduler.md"
I915 = "gpu.intel.com/i915"
GIB = 2**30


def card(number: int, tiles: int = 2, memory: int | None = 64, health: str | None = None) -> NodeCard:
    return NodeCard(
        unit_id(number),
        I915,
        card=f"card{number}",
        model="0x0bd5",
        tiles=tiles,
        memory_bytes=None if memory is None else memory * GIB,
        shares=8,
        health=Health(health),
    )


def unit_id(number: int) -> UnitId:
    return UnitId(f"0000-0{number}-00.0")


def assignment(number: int, *tiles: int) -> str:
    return render_own(Assignment({"main": {I915: (unit(unit_id(number), *tiles),)}}))


def pod(name: str, on: str | None, said: str | None, phase: str = "Running", **asked: object) -> Raw:
    limits = {I915: 1, **{f"gpu.intel.com/{part}": amount for part, amount in asked.items()}}
    return raw_pod(
        name,
        on=on,
        phase=phase,
        gates=() if on else (f"{GATE_PREFIX}x",),
        annotations={ASSIGNMENT_ANNOTATION: said} if said else {},
        containers=[raw_container(limits=limits)],
    )


NODES = [
    raw_node("gpu-a", cards=[card(number) for number in range(4)], labels={"gas-disable-card3": "true"}),
    raw_node("gpu-b", cards=[card(0, health="its PCI configuration cannot be read"), card(1, 1, 16)]),
    raw_node("cpu-a"),
]
PODS = [
    pod("train-0", "gpu-a", assignment(0, 0), tiles=1),
    pod("train-1", "gpu-a", assignment(0, 1), tiles=1, **{"memory.max": "24Gi"}),
    pod("serve", "gpu-a", assignment(1), millicores=400, **{"memory.max": "8Gi"}),
    pod("over", "gpu-a", assignment(2, 0), "Succeeded", tiles=1),
]


def run(folder: Path, nodes: object, pods: object, *flags: str) -> Result:
    arguments = ["cards", "--nodes", write(folder, "nodes", nodes), "--pods", write(folder, "pods", pods)]
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [*arguments, *flags], catch_exceptions=False)


def write(folder: Path, name: str, content: object) -> str:
    file = folder / f"{name}.json"
    file.write_text(content if isinstance(content, str) else json.dumps({"items": content}))
    return str(file)


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_the_drawing_shows_each_card_its_tiles_and_holders_in_a_line(tmp_path: Path) -> None:
    drawn = lines(run(tmp_path, NODES, PODS))
    assert drawn == [
        "gpu-a  2 of 8 tiles free, 1 of 4 cards wholly free",
        "CARD   MODEL   TILES  MILLI   MEMORY  HOLDERS",
        "card0  0x0bd5  ██         0   0/64Gi  tile 0 ml/train-0/main, tile 1 ml/train-1/main",
        "card1  0x0bd5  ▒▒       600  56/64Gi  all ml/serve/main",
        "card2  0x0bd5  ··      1000  64/64Gi",
        "card3  0x0bd5  xx         0   0/64Gi  out of service",
        "",
        "gpu-b  1 of 3 tiles free, 1 of 2 cards wholly free",
        "CARD   MODEL   TILES  MILLI   MEMORY  HOLDERS",
        "card0  0x0bd5  xx         0   0/64Gi  ill: its PCI configuration cannot be read",
        "card1  0x0bd5  ·       1000  16/16Gi",
        "",
        "1 node without cards: cpu-a",
        "",
        "gpu.intel.com/i915  3 of 11 tiles free, 2 of 6 cards wholly free",
        "  the most that one card has free: 2 tiles, 1000 millicores, 64 GiB of memory",
        "  · free  █ held  ▒ shared  x out of service",
        "  MILLI, MEMORY: millicores and memory that pods can still get",
    ]


def test_memory_that_is_not_known_is_not_drawn_as_none(tmp_path: Path) -> None:
    nodes = [
        raw_node("n", cards=[card(0, 1, None), card(1, 1, 16)]),
        raw_node("up", cards=[card(0, 1, None)]),
    ]
    drawn = lines(run(tmp_path, nodes, []))
    assert "card0  0x0bd5  ·       1000  not known" in drawn
    assert "card1  0x0bd5  ·       1000    16/16Gi" in drawn
    assert "  the most that one card has free: 1 tile, 1000 millicores, 16 GiB of memory" in drawn
    drawn = lines(run(tmp_path, nodes[1:], []))
    assert "  the most that one card has free: 1 tile, 1000 millicores; its memory is not known" in drawn
    shown = json.loads(run(tmp_path, nodes[1:], [], "--json").stdout)
    assert shown["totals"][0]["largest_memory_bytes"] is None


def test_the_documented_drawing_is_this_one(tmp_path: Path) -> None:
    assert "\n".join(lines(run(tmp_path, NODES, PODS))) in DOCUMENT.read_text()


@pytest.mark.parametrize("of", [NodeCardsView, StrayView, CardView, TileView, HolderView, TotalView])
def test_every_key_of_the_json_is_documented(of: type["DataclassInstance"]) -> None:
    _, _, section = DOCUMENT.read_text().partition("## Seeing the cards")
    section, _, _ = section.partition("\n## ")
    said = set(re.findall(r"[`\"](\w+)[`\"]", section))
    assert {field.name for field in fields(of)} <= said


def test_the_drawing_needs_no_more_than_ascii(tmp_path: Path) -> None:
    runner = CliRunner(charset="ascii")
    arguments = ["--nodes", write(tmp_path, "nodes", NODES), "--pods", write(tmp_path, "pods", PODS)]
    result = runner.invoke(main, ["cards", *arguments], catch_exceptions=False)
    assert result.stdout.isascii()
    assert "card0  0x0bd5  ##         0   0/64Gi  tile 0 ml/train-0/main" in result.stdout
    assert ". free  # held  = shared  x out of service" in result.stdout


def test_json_has_every_tile_its_holders_and_what_is_free(tmp_path: Path) -> None:
    result = run(tmp_path, NODES, PODS, "--json", "--node", "gpu-a")
    (only,) = json.loads(result.stdout)["nodes"]
    first = only["cards"][0]
    required = ("id", "card", "model", "millicores_free", "memory_free_bytes", "health")
    assert only["name"] == "gpu-a"
    assert {key: first[key] for key in required} == {
        "id": "0000-00-00.0",
        "card": "card0",
        "model": "0x0bd5",
        "millicores_free": 0,
        "memory_free_bytes": 0,
        "health": "Healthy",
    }
    assert [(tile["tile"], tile["holders"]) for tile in first["tiles"]] == [
        (0, ["ml/train-0/main"]),
        (1, ["ml/train-1/main"]),
    ]
    assert [tile["holders"] for tile in only["cards"][1]["tiles"]] == [["ml/serve/main"]] * 2


def test_the_total_tells_scattered_tiles_from_free_cards(tmp_path: Path) -> None:
    nodes = [raw_node("n", cards=[card(number) for number in range(4)])]
    pods = [pod(f"p{number}", "n", assignment(number, number % 2), tiles=1) for number in range(4)]
    drawn = lines(run(tmp_path, nodes, pods))
    assert [line[15:17] for line in drawn[2:6]] == ["█·", "·█", "█·", "·█"]
    assert "gpu.intel.com/i915  4 of 8 tiles free, 0 of 4 cards wholly free" in drawn
    assert any(line.startswith("  the most that one card has free: 1 tile,") for line in drawn)


def test_many_tiles_and_long_names_are_one_line_in_a_pipe(tmp_path: Path) -> None:
    name = "a-job-with-a-name-that-nobody-can-remember-0123456789-abcdefghij-0"
    drawn = lines(
        run(
            tmp_path, [raw_node("n", cards=[card(0, tiles=40)])], [pod(name, "n", assignment(0, 17), tiles=1)]
        )
    )
    assert "·" * 17 + "█" + "·" * 22 in drawn[2]
    assert drawn[2].endswith(f"tile 17 ml/{name}/main")


def test_nothing_free_is_said(tmp_path: Path) -> None:
    drawn = lines(run(tmp_path, [raw_node("n", cards=[card(0, health="wedged")])], []))
    assert "  the most that one card has free: nothing" in drawn


def test_forged_holders_are_red_and_warned_of(tmp_path: Path) -> None:
    pods = [pod(name, "gpu-a", assignment(0, 0), tiles=1) for name in ("train", "forged")]
    drawn = lines(run(tmp_path, NODES, pods))
    assert drawn[2].startswith("card0  0x0bd5  !·")
    text = " ".join(" ".join(drawn).split())
    assert "! tile 0 is held by ml/forged/main and ml/train/main, each alone" in text
    assert "Warning: 1 card with holders that cannot hold it together" in text
    arguments = ["--nodes", str(tmp_path / "nodes.json"), "--pods", str(tmp_path / "pods.json")]
    coloured = CliRunner(env={"FORCE_COLOR": "1", "TERM": "xterm"}).invoke(
        main, ["cards", *arguments], color=True
    )
    assert "\x1b[31mWarning: 1 card" in coloured.stdout
    assert "\x1b[1;31m!\x1b[0m" in coloured.stdout


def test_a_cordoned_node_says_so_and_has_nothing_free(tmp_path: Path) -> None:
    cordoned = raw_node("n", cards=[card(0)])
    cordoned["spec"] = {"unschedulable": True}
    drawn = lines(run(tmp_path, [cordoned], []))
    assert drawn[0] == "n  cordoned  0 of 2 tiles free, 0 of 1 card wholly free"
    assert drawn[2] == "card0  0x0bd5  xx         0  0/64Gi"


def test_what_the_scheduler_is_about_to_release_is_held(tmp_path: Path) -> None:
    placement = Placement("next", "uid-next", "gpu-a", assignment(2, 0, 1))
    plan = Record(GangKey("ml", "next", "Pod"), (placement,), 0, 0).to_body()
    pods = [*PODS, pod("next", None, None, "Pending", tiles=2)]
    flags = ("--plans", write(tmp_path, "plans", [plan]))
    drawn = lines(run(tmp_path, NODES, pods, *flags))
    assert "card2  0x0bd5  ██         0   0/64Gi  tiles 0,1 ml/next/main" in drawn


def test_holders_by_the_annotations_of_gpu_aware_scheduling_are_shown_too(tmp_path: Path) -> None:
    old = pod("old", "gpu-a", None, tiles=1)
    said = {"gas-container-cards": "card2", "gas-container-tiles": "card2:gt1"}
    metadata = old["metadata"]
    assert isinstance(metadata, dict)
    drawn = lines(run(tmp_path, NODES, [{**old, "metadata": {**metadata, "annotations": said}}]))
    assert "card2  0x0bd5  ·█      1000  64/64Gi  tile 1 ml/old/main" in drawn


def test_an_assignment_to_a_card_that_is_not_there_is_shown(tmp_path: Path) -> None:
    drawn = lines(run(tmp_path, NODES, [pod("old", "gpu-b", assignment(7, 1), tiles=1)]))
    assert "  ml/old/main is assigned 0000-07-00.0 tile 1, which the node does not publish" in drawn


def test_an_annotation_that_cannot_be_read_loses_no_other_node(tmp_path: Path) -> None:
    drawn = lines(
        run(
            tmp_path,
            [*NODES, raw_node("gpu-c", annotations={NODE_CARDS_ANNOTATION: '{"version":2,"cards":[]}'})],
            PODS,
        )
    )
    text = " ".join(drawn)
    assert "gpu-c  accelet.dev/cards: version 2 is not known here; this accelet reads version 1." in text
    assert "card1  0x0bd5  ·       1000  16/16Gi" in drawn


def test_models_and_reasons_bring_no_control_characters_to_a_terminal(tmp_path: Path) -> None:
    nasty = raw_node(
        "n", cards=[NodeCard(UnitId("c0"), I915, model="\x1b[2Jx", health=Health("\x1b]0;title\x07"))]
    )
    result = run(tmp_path, [nasty], [])
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    assert "c0" in result.stdout


def test_one_node_alone_can_be_asked_for(tmp_path: Path) -> None:
    drawn = lines(run(tmp_path, NODES, PODS, "--node", "gpu-b"))
    assert drawn[0].startswith("gpu-b")
    assert not any("gpu-a" in line or "cpu-a" in line for line in drawn)


def test_a_node_nobody_knows_is_a_mistake_of_the_arguments(tmp_path: Path) -> None:
    result = run(tmp_path, NODES, PODS, "--node", "gpu-z")
    assert result.exit_code == 2
    assert "--node: none of the 3 nodes is called gpu-z" in result.stderr
    assert result.stdout == ""


def test_a_cluster_without_nodes_is_an_answer(tmp_path: Path) -> None:
    assert lines(run(tmp_path, [], [])) == ["There are no nodes."]
    assert json.loads(run(tmp_path, [], [], "--json").stdout) == {"nodes": [], "totals": []}


def test_many_nodes_without_cards_are_not_all_named(tmp_path: Path) -> None:
    drawn = lines(run(tmp_path, [raw_node(f"n{number:02}") for number in range(10)], []))
    assert drawn[0] == "10 nodes without cards: n00, n01, n02, n03, n04, n05, n06, n07 and 2 more"


def test_pods_can_come_from_the_standard_input(tmp_path: Path) -> None:
    arguments = ["cards", "--nodes", write(tmp_path, "nodes", NODES), "--pods", "-"]
    result = CliRunner().invoke(main, arguments, input=json.dumps({"items": PODS}))
    assert "ml/train-0/main" in result.stdout


def test_other_resources_count_as_cards_where_the_settings_say_so(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\ncards: {resources: [example.com/gpu]}")
    other = NodeCard(unit_id(0), "example.com/gpu", card="card0", shares=8)
    said = render_own(Assignment({"main": {"example.com/gpu": (unit(unit_id(0)),)}}))
    sharing = pod("p", "n", said)
    sharing["spec"] = {
        "nodeName": "n",
        "containers": [
            {
                "name": "main",
                "resources": {"limits": {"example.com/gpu": 1, "example.com/millicores": 300}},
            }
        ],
    }
    result = run(tmp_path, [raw_node("n", cards=[other])], [sharing], "--json", "--config", str(config))
    assert json.loads(result.stdout)["nodes"][0]["cards"][0]["millicores_free"] == 700


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nodes", "NODES"], "--nodes and --pods belong together"),
        (["--pods", "NODES"], "--nodes and --pods belong together"),
        (["--nodes", "-", "--pods", "-"], "only one file can be read from the standard input"),
        (["--nodes", "/nowhere", "--pods", "-"], "'/nowhere' does not exist"),
        (["--nodes", "NODES", "--pods", "NODES"], "items[0] (gpu-a) is a Node, not a Pod"),
        (["--nodes", "NODES", "--pods", "-"], "-: not a Kubernetes list in JSON"),
        (["--nodes", "NODES", "--pods", "-", "--config", "WRONG"], "must be one of v1"),
    ],
)
def test_input_that_cannot_be_used_is_said_and_exits_with_2(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "wrong.yaml").write_text("version: v2")
    files = {"NODES": write(tmp_path, "nodes", NODES), "WRONG": str(tmp_path / "wrong.yaml")}
    result = CliRunner().invoke(main, ["cards", *(files.get(word, word) for word in arguments)])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
