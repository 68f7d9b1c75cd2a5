"""Tables of the documents are tables, their links lead somewhere, and their sentences can be read."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shipping.markdown import Link, anchors, broken_rows, documents, links, sentences

PROJECT = Path(__file__).parents[3]
MOST_WORDS = 40


def every_document() -> list[str]:
    found = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    return found.stdout.split()


@pytest.mark.parametrize("name", every_document())
def test_every_row_of_a_table_has_the_cells_of_its_head(name: str) -> None:
    assert [*broken_rows((PROJECT / name).read_text())] == []


@pytest.mark.parametrize("name", every_document())
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(name: str) -> None:
    path = PROJECT / name
    for link in links(path.read_text()):
        target = path.parent / link.path if link.path else path
        assert target.exists(), f"{name}:{link.line} points to {link.path}"
        if link.anchor:
            assert link.anchor in anchors(target.read_text()), f"{name}:{link.line} points to #{link.anchor}"


def test_readme_is_read_in_a_few_minutes() -> None:
    lines = (PROJECT / "README.md").read_text().splitlines()
    assert len(lines) <= 130, "it says what there is, and links to the page that says more"


@pytest.mark.parametrize("path", documents(PROJECT), ids=lambda path: path.name)
def test_no_sentence_has_more_words_than_people_can_follow(path: Path) -> None:
    name = str(path.relative_to(PROJECT))
    long = [one for one in sentences(path.read_text()) if one.words > MOST_WORDS]
    told = "\n".join(f"{name}:{one.line}: {one.words} words: {one.text}" for one in long)
    assert long == [], f"make two sentences of each, or more:\n{told}"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["| a | b |", "|---|---|", "| 1 | 2 |"], None),
        (["| a | |", "|---|---|", "| | |"], None),
        (["a | b", "--|--", "1 | 2"], None),
        (["| a | b |", "|---|---|", r"| `x \| y` | 2 |"], None),
        (["| a | b |", "|---|---|", "| `x | y` | 2 |"], "line 3: 3 cells"),
        (["| a | b |", "|---|---|", "| 1 |"], "line 3: 1 cells"),
        (["| a | b |", "|---|---|", "", "| 1 | 2 |"], "line 4: a row of no table"),
        (["| a | b |", "|---|", "| 1 | 2 |"], "line 1: a row of no table"),
    ],
)
def test_a_row_that_people_would_see_broken_is_found(rows: list[str], said: str | None) -> None:
    found = [*broken_rows("\n".join(rows))]
    assert found[0].startswith(said) if said else not found, found


CELLS = st.lists(
    st.text("ab `\\*", max_size=5).map(lambda text: text.strip(" \\") or "-"), min_size=2, max_size=2
)


@given(st.lists(CELLS, min_size=1, max_size=4), st.data())
def test_each_cell_too_many_is_found_in_its_row(rows: list[list[str]], data: st.DataObject) -> None:
    lines = ["| a | b |", "|---|---|", *("| " + " | ".join(cells) + " |" for cells in rows)]
    assert [*broken_rows("\n".join(lines))] == []
    broken = data.draw(st.integers(2, len(lines) - 1))
    lines[broken] += " more |"
    assert [*broken_rows("\n".join(lines))] == [
        f"line {broken + 1}: 3 cells, and the head of its table has 2"
    ]


def test_anchors_are_those_of_github() -> None:
    text = '# Why there? What if?\n## `a` of *b*: c_d-e\n## Twice\n## Twice\n\nand <a id="here"></a>this\n'
    assert anchors(text) == {"why-there-what-if", "a-of-b-c_d-e", "twice", "twice-1", "here"}


def test_links_are_found_outside_code_only() -> None:
    text = "[a](b.md#c) ![d](e.png) `[f](g.md)` [h](#i) <https://j> [k](https://l)\n\n    [m](n.md)\n"
    assert [*links(text)] == [Link(1, "b.md", "c"), Link(1, "e.png", ""), Link(1, "", "i")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One two. Three four five.", [2, 3]),
        ("In 1.36 `a.b c` is *one* word: yes? No!", [7, 1]),
        ("- an item\n- [another one](a.md)\n\n# A heading\n", [2, 2, 2]),
        ("| a; b c | d. E |\n|---|---|\n| f; g | h |\n", [1, 2, 1, 1, 1, 1, 1]),
        ("    not a sentence\n", []),
    ],
)
def test_words_of_sentences_are_counted(text: str, words: list[int]) -> None:
    assert [one.words for one in sentences(text)] == words


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_no_sentence_hides_in_a_paragraph(lengths: list[int]) -> None:
    text = "\n".join(" ".join(["Word", *["word"] * (length - 1)]) + "." for length in lengths)
    assert [one.words for one in sentences(text)] == lengths
