"""What is given on with the image is told with its licence, and its licence is allowed."""

import subprocess
import sys
from pathlib import Path

import pytest

from release.debianlock import DebianLock, DebianPackage
from release.errors import ReleaseError
from release.licences import Notice, explain_refusal, problems, spdx_licence
from release.notices import make_notices, parse_notices, render_notices
from release.places import IMAGE_LOCK, PROJECT
from release.requirements import locked_versions


def test_notices_of_this_environment_name_every_locked_package_with_its_licence_and_text(
    tmp_path: Path,
) -> None:
    done = write_notices(tmp_path / "one"), write_notices(tmp_path / "two")
    assert [one.stderr for one in done] == ["", ""]
    text = (tmp_path / "one").read_text()
    assert text == (tmp_path / "two").read_text()
    assert [one.name for one in parse_notices(text)] == sorted(locked_versions(IMAGE_LOCK.read_text()))
    for part in text.split("\n== ")[1:-1]:
        assert len(part.splitlines()) > 5, f"{part.split()[0]} has no licence text"


def write_notices(path: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "release", "notices", str(path)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def installed(folder: Path, name: str, licence: str, text: str) -> None:
    """A package as pip leaves it, as far as notices read it."""
    about = folder / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\nLicense-Expression: {licence}\n"
    )
    (about / "LICENSE").write_text(text)
    (about / "RECORD").write_text(f"{about.name}/LICENSE,,\n{about.name}/METADATA,,\n")


@pytest.mark.parametrize(
    ("licence", "text", "sentence"),
    [
        ("GPL-3.0-only", "You may", "a is under GPL-3.0-only, which is not allowed"),
        ("MIT", " ", "a comes without the text of its licence"),
    ],
)
def test_no_image_is_made_of_a_package_that_may_not_be_given_on(
    licence: str, text: str, sentence: str, tmp_path: Path
) -> None:
    installed(tmp_path, "a", licence, text)
    installed(tmp_path, "unlocked", "GPL-3.0-only", "")
    with pytest.raises(ReleaseError) as refused:
        make_notices(tmp_path, {"a": ["1"]}, DebianLock("now", ()))
    assert str(refused.value) == sentence
    assert "unlocked" not in make_notices(tmp_path, {}, DebianLock("now", ()))


@pytest.mark.parametrize(
    ("licence", "sentence"),
    [
        ("MIT", None),
        ("Apache-2.0 AND MIT", None),
        ("GPL-3.0-only OR MIT", None),
        ("MIT AND GPL-3.0-only", "a is under GPL-3.0-only, which is not allowed"),
        ("GPL-3.0-only", "a is under GPL-3.0-only, which is not allowed"),
        ("(MIT OR ISC) AND GPL-2.0-only", "for a person to read"),
        ("MIT OR ISC AND GPL-2.0-only", "for a person to read"),
        ("", "does not say its licence"),
    ],
)
def test_licence_is_allowed_or_refused_with_a_reason(licence: str, sentence: str | None) -> None:
    found = explain_refusal(Notice("a", "1", licence))
    assert (found is None) == (sentence is None)
    assert sentence is None or sentence in (found or "")


@pytest.mark.parametrize(
    ("expression", "text", "classifiers", "licence"),
    [
        ("MIT", "GPL", [], "MIT"),
        (None, "Apache 2.0", [], "Apache-2.0"),
        (None, None, ["Topic :: X", "License :: OSI Approved :: MIT License"], "MIT"),
        (None, "GPL", [], "GPL"),
        (None, None, [], ""),
    ],
)
def test_licence_is_found_in_what_metadata_says(
    expression: str | None, text: str | None, classifiers: list[str], licence: str
) -> None:
    assert spdx_licence("a", expression, text, classifiers) == licence


def test_package_without_notice_and_notice_of_another_version_are_told() -> None:
    notices = [Notice(name, "1", "MIT", ("You may",)) for name in "abd"]
    assert [*problems(notices, {"a": ["0", "1"], "b": ["2", "3"], "c": ["3"]})] == [
        "the notice is of b 1, and locked is 2 or 3",
        "c 3 is locked and has no notice",
        "the notice is of d 1, and locked is none",
    ]


def test_notices_are_read_as_they_were_written() -> None:
    notices = [Notice("a", "1", "MIT", ("Do what\n== you like\n",)), Notice("b", "2", "ISC OR MIT")]
    debian = DebianLock("now", (DebianPackage("amd64", "libc6", "2", "0" * 64, "debian", "pool/c"),))
    text = render_notices(notices, debian)
    assert parse_notices(text) == [Notice("a", "1", "MIT"), Notice("b", "2", "ISC OR MIT")]
    assert text.endswith("\nlibc6 2\n")
