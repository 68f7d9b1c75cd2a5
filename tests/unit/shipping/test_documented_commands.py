"""What the documents tell people to type exists, and what they show is read by what it is for."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from accelet.agent.config import parse_config
from accelet.cli import main
from accelet.fakekubelet.scenario.format import read_scenario
from accelet.provisioner.settings import read_settings as read_provisioner_settings
from tests.newcomer.documents import (
    DOCUMENTS,
    LANGUAGES,
    PROJECT,
    Block,
    joined_lines,
    missing_from,
    read_blocks,
    read_steps,
)

BLOCKS = [block for document in DOCUMENTS for block in read_blocks(document)]
_INLINE = re.compile(r"`((?:accelet|make) [^`]+)`")


def typed_lines() -> Iterator[tuple[str, str]]:
    """Where, and what: the lines of blocks, and the commands within sentences."""
    for step in (step for document in DOCUMENTS for step in read_steps(read_blocks(document))):
        for line in step.typed:
            yield str(step.block), line
    for document in DOCUMENTS:
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for found in _INLINE.finditer(line):
                yield f"{document.relative_to(PROJECT)}:{number}", found[1]


def commands(program: str) -> list[Any]:
    """The words behind a program wherever it is typed, also by `kubectl exec`."""
    found = []
    for where, line in typed_lines():
        for each in re.split(r" && | -- (?=accelet )| \| |; ", line):
            words = shlex.split(re.sub(r"[][]", " ", each).replace("|", " "))
            if words and words[0] == program:
                found.append(pytest.param(words[1:], id=f"{where} {' '.join(words[1:4])}"))
    return found


def test_every_fence_has_a_language() -> None:
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []
    assert len(BLOCKS) > 60


@pytest.mark.parametrize("words", commands("accelet"))
def test_command_of_accelet_exists(words: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main)
    rest = list(words)
    while isinstance(command, click.Group) and rest and rest[0][0].isalpha() and rest[0].islower():
        found = command.get_command(context, rest[0])
        if found is None:
            assert command is not main, f"there is no {rest[0]}"
            assert command.invoke_without_command, f"there is no {rest[0]}"
            break
        command = found
        rest.pop(0)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    asked = {word.partition("=")[0].rstrip(".,") for word in rest if re.match(r"--?[a-z]", word)}
    behind = {word for word in asked if "--" in words and words.index("--") < words.index(word)}
    assert asked - behind - known - {"--help", "--version"} == set()


def test_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    asked = {param.values[0][0] for param in commands("make")}
    assert {"demo", "test", "e2e", "release"} <= asked
    assert asked - targets == set()


def test_files_that_kubectl_and_helm_are_given_exist() -> None:
    lines = [line for _, line in typed_lines() if line.startswith(("kubectl", "helm"))]
    given = {word for line in lines for word in shlex.split(line) if word.startswith(("deploy", "examples"))}
    given = {word for word in given if not word.startswith(("deploy/accelet-", "deployment"))}
    assert len(given) > 8
    assert [name for name in sorted(given) if not (PROJECT / name).exists()] == []


def test_objects_that_kubectl_is_given_are_shipped() -> None:
    texts = [path.read_text() for path in (PROJECT / "deploy").rglob("*.yaml")] + [
        (PROJECT / "daemonset.yaml").read_text()
    ]
    shipped = {
        f"{each['kind'].lower()}/{each['metadata']['name']}"
        for text in texts
        if "{{" not in text
        for each in yaml.safe_load_all(text)
        if isinstance(each, dict) and "metadata" in each and "name" in each["metadata"]
    }
    lines = [line for _, line in typed_lines() if line.startswith("kubectl")]
    asked = {
        found
        for line in lines
        for found in re.findall(r"\b(?:daemonset|deploy|deployment)/accelet-[a-z-]+", line)
    }
    assert asked
    assert {name.replace("deploy/", "deployment/") for name in asked} - shipped == set()


def yaml_blocks() -> list[Any]:
    return [
        pytest.param(block, id=str(block))
        for block in BLOCKS
        if block.language == "yaml" and "wrong" not in block.words
    ]


@pytest.mark.parametrize("block", yaml_blocks())
def test_yaml_is_read_by_what_it_is_for(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(block.text)
    shown = next(yaml.safe_load_all(block.text))
    match shown:
        case {"steps": _}:
            assert read_scenario(file).steps
        case {"provider": _}:
            assert read_provisioner_settings(file).provider
        case {"version": _}:
            assert parse_config(block.text, str(block)).resources
        case {"apiVersion": str(), "kind": str(), "metadata": {"name": str()}}:
            assert "spec" in shown
        case {"resources": _} | {"agent": _} | {"spec": _} | {"config": _}:
            pass
        case _:
            pytest.fail(f"nothing is known that reads {block}")


def test_outputs_are_compared_line_by_line_but_for_times() -> None:
    printed = "first\nafter 0.31 s\nlink: abc?x=1 end\nlast\n"
    assert missing_from(printed, "first\n...\nafter 2 s\nlink: a… end") == []
    assert missing_from(printed, "last\nfirst") == ["first"]
    assert missing_from(printed, "after 0.31 m") == ["after 0.31 m"]


def test_blocks_are_fenced_or_indented_and_lists_are_none(tmp_path: Path) -> None:
    indented = "a\n\n    accelet devices\n    accelet plan \\\n      --jobs a\n\n- list\n\n    no block\n"
    fenced = "\n```sh long\nmake soak  # hours\n```\nend\n"
    document = tmp_path / "a.md"
    document.write_text(indented + fenced)
    blocks = read_blocks(document)
    assert [(block.line, block.language, block.words) for block in blocks] == [
        (3, "sh", ()),
        (12, "sh", ("long",)),
    ]
    assert joined_lines(blocks[0].text) == ("accelet devices", "accelet plan --jobs a")
    assert joined_lines(blocks[1].text) == ("make soak",)
