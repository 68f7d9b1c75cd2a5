"""Markdown as its readers see it: tables, links, headings, and sentences with their words.

`make sentences` prints every sentence of README and docs with more than 25 words, the longest first.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

LONG: Final = 25
"""A sentence should have at most as many words."""

_PARSER: Final = MarkdownIt("commonmark").enable("table")
_SENTENCE_END: Final = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])[)\"']*\s+")
_CELL_END: Final = re.compile(r";\s+")
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")
_WRITTEN_ANCHOR: Final = re.compile(r'<a id="([^"]+)">')
_CODE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for a piece of code, which is one word and ends no sentence."""


@dataclass(frozen=True, slots=True)
class Sentence:
    line: int
    text: str

    @property
    def words(self) -> int:
        return sum(any(sign.isalnum() or sign == _CODE for sign in word) for word in self.text.split())


@dataclass(frozen=True, slots=True)
class Link:
    """`path` is empty for one within the document, `anchor` for one to a whole document."""

    line: int
    path: str
    anchor: str


def broken_rows(text: str) -> Iterator[str]:
    """Each row of a table that has more or fewer cells than its head, and each that is in no table."""
    lines, columns = text.splitlines(), 0
    for token in _PARSER.parse(text):
        if token.map is None:
            continue
        first, end = token.map
        match token.type:
            case "table_open":
                columns = _cells(lines[first])
            case "tr_open" if (cells := _cells(lines[first])) != columns:
                yield f"line {first + 1}: {cells} cells, and the head of its table has {columns}"
            case "paragraph_open":
                for number in range(first, end):
                    if lines[number].lstrip().startswith("|"):
                        yield f"line {number + 1}: a row of no table; is there an empty line above it?"


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings, and those written as `<a id="...">`."""
    seen: Counter[str] = Counter()
    found = set()
    tokens = _PARSER.parse(text)
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(child.content for child in following.children or ())
            anchor = _NOT_IN_ANCHORS.sub("", words.lower()).replace(" ", "-")
            found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
            seen[anchor] += 1
    written = (child.content for _, token in _inline(text) for child in token.children or ())
    return found | {match[1] for tag in written if (match := _WRITTEN_ANCHOR.fullmatch(tag))}


def links(text: str) -> Iterator[Link]:
    """Every link and picture that leads to something of this project."""
    for line, token in _inline(text):
        for child in token.children or ():
            target = str(child.attrGet("href" if child.type == "link_open" else "src") or "")
            if target and not re.match(r"[a-z]+:", target):
                path, _, anchor = target.partition("#")
                yield Link(line, path, anchor)


def sentences(text: str) -> Iterator[Sentence]:
    """Those of paragraphs, lists and headings. In the cells of a table a semicolon ends one too."""
    for line, token in _inline(text):
        words = "".join(_spoken(child) for child in token.children or ())
        is_cell = token.meta.get("is_cell", False)
        for sentence in _SENTENCE_END.split(words):
            for part in _CELL_END.split(sentence) if is_cell else [sentence]:
                yield Sentence(line, part.strip())


def _spoken(token: Token) -> str:
    match token.type:
        case "code_inline":
            return _CODE
        case "softbreak" | "hardbreak":
            return " "
        case "text":
            return token.content
        case _:
            return ""


def _inline(text: str) -> Iterator[tuple[int, Token]]:
    """Everything with words, and the number of its first line."""
    line, is_cell = 1, False
    for token in _PARSER.parse(text):
        if token.map is not None:
            line = token.map[0] + 1
        if token.type in ("th_open", "td_open", "th_close", "td_close"):
            is_cell = token.nesting == 1
        elif token.type == "inline":
            token.meta["is_cell"] = is_cell
            yield line, token


def _cells(line: str) -> int:
    """How many a row has; a bar behind a backslash parts none."""
    cells = escapedSplit(line.strip())
    return len(cells[not cells[0] :]) - (len(cells) > 1 and not cells[-1])


def documents(project: Path) -> list[Path]:
    """What users read: README and the pages of docs, without the record of decisions."""
    return [project / "README.md", *sorted((project / "docs").glob("*.md"))]


def _main(project: Path) -> None:
    found = [
        (one.words, str(path.relative_to(project)), one)
        for path in documents(project)
        for one in sentences(path.read_text(encoding="utf-8"))
    ]
    for words, name, one in sorted(found, key=lambda item: -item[0]):
        if words > LONG:
            sys.stdout.write(f"{words} words, {name}:{one.line}: {one.text.replace(_CODE, '`…`')}\n")


if __name__ == "__main__":
    _main(Path(__file__).parents[3])
