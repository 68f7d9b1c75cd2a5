"""The colours of the page by WCAG 2.2: 4.5:1 for text, 3:1 for what is told by its shape (1.4.3, 1.4.11)."""

import re

import pytest

from accelet.ui.app import page_files

CSS = page_files()["page.css"][0].decode()
LIGHT, DARK, CHOSEN = re.findall(r"(?<=\{)[^{}]*--page:[^{}]*", CSS)
TEXTS = [
    *((text, ground) for text in ("text", "dim") for ground in ("page", "panel")),
    *((f"{kind}", f"{kind}-bg") for kind in ("good", "bad", "wait")),
    ("bad", "page"),
    ("wait", "panel"),
    ("accent", "panel"),
]
SHAPES = [
    (shape, ground)
    for shape in ("edge", "held", "shared", "closed", "contested", "accent", "hit")
    for ground in ("page", "panel")
]


def parse_colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6}|transparent)", block))


def luminance(colour: str) -> float:
    """Relative luminance of `#rgb` or `#rrggbb`, from 0 to 1."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_of_known_colours_is_as_wcag_has_it() -> None:
    assert contrast("#fff", "#000000") == 21
    assert round(contrast("#777777", "#fff"), 2) == 4.48


@pytest.mark.parametrize("block", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_and_shapes_stand_out(block: str) -> None:
    colours = parse_colours(block)
    ratios = {(one, other): contrast(colours[one], colours[other]) for one, other in [*TEXTS, *SHAPES]}
    assert not {pair: ratio for pair, ratio in ratios.items() if ratio < (4.5 if pair in TEXTS else 3)}


def test_dark_is_the_same_by_choice_and_by_the_machine() -> None:
    assert parse_colours(DARK) == parse_colours(CHOSEN)


@pytest.mark.parametrize("state", ["free", "blocked"])
def test_tiles_of_a_pale_colour_have_an_edge(state: str) -> None:
    assert re.search(rf"\.tile\.{state} {{[^}}]*border-color: var\(--edge\)", CSS)
