"""Read the two things we need from a go.mod file: tools and required versions."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GoMod:
    """`tools` are package paths; `requires` are versions by module path."""

    tools: tuple[str, ...]
    requires: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> "GoMod":
        """Reads go.mod as the go command writes it: no words in quotes, comments up to the line's end."""
        tools = []
        requires = {}
        for verb, words in _directives(text):
            if verb == "tool":
                tools.append(words[0])
            elif verb == "require":
                requires[words[0]] = words[1]
        return cls(tuple(tools), requires)


def _directives(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each directive with its words, whether it stands alone or in a block in brackets."""
    block = None
    for line in text.splitlines():
        words = line.partition("//")[0].split()
        if not words:
            continue
        if words == [")"]:
            block = None
        elif words[-1] == "(":
            block = words[0]
        elif block:
            yield block, words
        else:
            yield words[0], words[1:]
