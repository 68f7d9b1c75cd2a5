"""What docs/backends.md shows is what the agent reads and does."""

import re
from pathlib import Path

import pytest

from accelet.accelerators import BACKENDS
from accelet.accelerators.intel.masks import Hierarchy, VisibleCard, write_mask
from accelet.agent.config import parse_config

PAGE = (Path(__file__).parents[3] / "docs/backends.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_whole_configurations(text: str, tmp_path: Path) -> None:
    config = parse_config(text, "docs/backends.md")
    assert config.resources
    for resource in config.resources:
        resource.backend().scan(tmp_path)


def test_every_backend_has_an_example_or_a_mode() -> None:
    shown = set(re.findall(r"^  backend: (\S+)$", PAGE, re.MULTILINE)) | {"intel-gpu-monitoring"}
    assert {"files", "intel-gpu", "intel-gpu-monitoring", "simulated"} <= shown & set(BACKENDS)


@pytest.mark.parametrize(
    ("cards", "row"),
    [
        ([(2, {1})], "| one of 2 tiles | tile 1 |"),
        ([(2, {0, 1}), (2, {1})], "| two of 2 tiles | all of the first, tile 1 of the second |"),
        ([(1, {0}), (2, {1}), (4, {2, 3})], "| of 1, 2 and 4 tiles | the first, tile 1, tiles 2 and 3 |"),
    ],
)
def test_the_masks_of_the_table_are_those_written(cards: list[tuple[int, set[int]]], row: str) -> None:
    visible = [VisibleCard(count, frozenset(tiles)) for count, tiles in cards]
    flat, composite = (write_mask(visible, kind) for kind in (Hierarchy.FLAT, Hierarchy.COMPOSITE))
    assert f"{row} `{flat}` | `{composite}` |" in PAGE


def test_every_code_is_listed() -> None:
    source = Path(__file__).parents[3] / "accelet/accelerators/intel"
    codes = {
        code
        for file in source.glob("*.py")
        for code in re.findall(
            r'"([a-z]+(?:-[a-z]+)+)", ?\(?f?"|return "([a-z]+(?:-[a-z]+)+)"', file.read_text()
        )
        for code in code
        if code
    }
    assert len(codes) >= 8
    assert all(f"`{code}`" in PAGE for code in codes), codes
