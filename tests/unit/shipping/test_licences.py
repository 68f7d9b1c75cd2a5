"""What is given on with the image is told with its licence, and its licence is allowed."""

import pytest

from release.debianlock import DebianLock, DebianPackage
from release.licences import Notice, explain_refusal, problems, spdx_licence
from release.notices import parse_notices, render_notices
from release.places import IMAGE_LOCK, NOTICES
from release.requirements import parse_pins


def test_every_locked_package_is_told_with_an_allowed_licence_and_its_text() -> None:
    text = NOTICES.read_text()
    notices = parse_notices(text)
    locked = {pin.name: pin.version for pin in parse_pins(IMAGE_LOCK.read_text())}
    assert [*problems(notices, locked)] == [], "run 'make lock'"
    for part in text.split("\n== ")[1:-1]:
        assert len(part.splitlines()) > 5, f"{part.split()[0]} has no licence text"


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
    notices = [Notice("a", "1", "MIT"), Notice("b", "1", "MIT"), Notice("d", "1", "MIT")]
    assert [*problems(notices, {"a": "1", "b": "2", "c": "3"})] == [
        "the notice is of b 1, and locked is 2",
        "c 3 is locked and has no notice",
        "the notice is of d 1, and locked is none",
    ]


def test_notices_are_read_as_they_were_written() -> None:
    notices = [Notice("a", "1", "MIT", ("Do what\n== you like\n",)), Notice("b", "2", "ISC OR MIT")]
    debian = DebianLock("now", (DebianPackage("amd64", "libc6", "2", "0" * 64, "debian", "pool/c"),))
    text = render_notices(notices, debian)
    assert parse_notices(text) == [Notice("a", "1", "MIT"), Notice("b", "2", "ISC OR MIT")]
    assert text.endswith("\nlibc6 2\n")
