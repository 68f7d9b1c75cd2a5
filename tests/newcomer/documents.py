"""The code blocks of the documents: what a reader is told to type, and what it shows.

A block is fenced, with a language, or indented by four columns, which is `sh` if its first word is a program:

| fence | |
|---|---|
| `sh` | typed as it stands; each line ends with exit code 0 |
| `sh long`, `sh plugin` | takes hours, or a plugin of the reader's: the words are looked at, not typed |
| `console` | lines after `$ ` are typed, the others are what they print |
| `console fails` | the same, and the exit code is not 0 |
| `text` | directly behind commands: what they print |
| `file=NAME` | behind any language: the block is the file NAME in the folder of work |

What asks a cluster is looked at, not typed. A line `...` of an output stands for any lines, `…` for the
rest of a word, and times are not compared.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DOCUMENTS = (
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    PROJECT / "tests" / "e2e" / "README.md",
)
LANGUAGES = ("sh", "console", "text", "yaml", "json", "ini", "python", "promql", "mermaid")

_FENCE = re.compile(r"^( *)(```+)([^`\n]*)$")
_INDENTED = re.compile(r"^    \S")
_TIME = re.compile(r"\b[0-9]+(\.[0-9]+)? (m?s|min)\b")
_PROGRAMS = ("accelet", "gcloud", "helm", "kubectl", "make", "openssl", "pip", "python")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code; `line` is that of its first line of text, counted from 1."""

    document: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file whose content it shows."""
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), None)

    def __str__(self) -> str:
        return f"{self.document.relative_to(PROJECT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Step:
    """What is typed, line by line, and what the last line shows; `shown` None: nothing is said of it."""

    block: Block
    typed: tuple[str, ...]
    shown: str | None

    @property
    def fails(self) -> bool:
        return "fails" in self.block.words

    @property
    def is_only_looked_at(self) -> bool:
        """Whoever has a machine alone cannot type it."""
        return bool({"long", "plugin"} & set(self.block.words)) or any(map(asks_more, self.typed))


def asks_more(line: str) -> bool:
    """Whether a line asks a cluster, a registry, Go or root."""
    words = line.split()
    match words[0]:
        case "gcloud" | "helm" | "kubectl" | "docker" | "openssl":
            return True
        case "make":
            return words[1] not in ("demo", "test", "check")
        case "python":
            return words[2].startswith("tests.")
        case "accelet":
            is_offline = words[1] in ("demo", "devices", "conformance", "plan") or words[1:3] == [
                "slices",
                "plan",
            ]
            return not is_offline or any(word.endswith(".json") for word in words)
    return False


def read_blocks(document: Path) -> tuple[Block, ...]:
    """Every block of code of a document of Markdown, in order."""
    return tuple(_blocks(document, document.read_text().splitlines()))


def _blocks(document: Path, lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    is_list = False
    while at < len(lines):
        line = lines[at]
        if (fence := _FENCE.match(line)) is not None:
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == fence[2])
            language, *words = fence[3].split() or [""]
            text = "\n".join(each.removeprefix(fence[1]) for each in lines[at + 1 : end])
            yield Block(document, at + 2, language, tuple(words), text)
            at = end
        elif _INDENTED.match(line) and not lines[at - 1].strip() and not is_list:
            end = next(
                (n for n in range(at, len(lines)) if lines[n] and not lines[n].startswith("    ")), len(lines)
            )
            text = "\n".join(each.removeprefix("    ") for each in lines[at:end]).rstrip("\n")
            yield Block(document, at + 1, "sh" if text.split()[0] in _PROGRAMS else "text", (), text)
            at = end - 1
        elif line and not line.startswith(" "):
            is_list = bool(re.match(r"([-*]|[0-9]+[.]) ", line))
        at += 1


def read_steps(blocks: Sequence[Block]) -> tuple[Step, ...]:
    """What is typed, in order, with what the block behind it shows."""
    steps = list[Step]()
    for block, following in zip(blocks, (*blocks[1:], None), strict=False):
        if block.language == "console":
            steps.extend(_session(block))
        elif block.language == "sh":
            is_shown = following is not None and following.language == "text"
            steps.append(
                Step(block, joined_lines(block.text), following.text if following and is_shown else None)
            )
    return tuple(steps)


def _session(block: Block) -> Iterator[Step]:
    head, *turns = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not head, f"{block} begins with an output"
    for turn in turns:
        typed, _, shown = turn.partition("\n")
        yield Step(block, (typed,), shown.rstrip("\n") or None)


def joined_lines(text: str) -> tuple[str, ...]:
    """The commands of a script, without comments; a backslash or an open quote joins a line to the next."""
    commands, begun = list[str](), ""
    for line in text.splitlines():
        begun += line if not begun else "\n" + line
        if begun.endswith("\\"):
            begun = begun[:-1].rstrip() + " "
            continue
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            continue
        commands.append(re.sub(r"(^|\s+)#\s.*$", "", re.sub(r" \n\s*", " ", begun)))
        begun = ""
    return tuple(command for command in commands if command.strip())


def missing_from(printed: str, shown: str) -> Sequence[str]:
    """The lines of `shown` that `printed` lacks, in that order; empty if it is as the document says."""
    lines = [_plain(line) for line in printed.splitlines()]
    missing, at = [], 0
    for line in shown.splitlines():
        if not line.strip() or line.strip() == "...":
            continue
        pattern = re.compile("".join(r"\S*" if each == "…" else re.escape(each) for each in _plain(line)))
        found = next((n for n in range(at, len(lines)) if pattern.fullmatch(lines[n])), None)
        if found is None:
            missing.append(line)
        else:
            at = found + 1
    return missing


def _plain(line: str) -> str:
    return _TIME.sub("TIME", line.rstrip())
