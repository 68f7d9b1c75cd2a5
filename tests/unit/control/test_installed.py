"""What people are told to type for an extra: what they have installed from, as pip itself noted it."""

import json
import shlex
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.control.installed import explain_install, install_command

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (None, "pip install 'accelet[ui]==0.1.0', from the same index or folder as before"),
        ({"url": "file:///home/ada/my%20code", "dir_info": {}}, "pip install '/home/ada/my code[ui]'"),
        (
            {"url": "file:///home/ada/accelet", "dir_info": {"editable": True}},
            "pip install --editable '/home/ada/accelet[ui]'",
        ),
        (
            {"url": "file:///tmp/accelet-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install '/tmp/accelet-0.1.0-py3-none-any.whl[ui]'",
        ),
        (
            {"url": "https://example.com/accelet-0.1.0.tar.gz", "archive_info": {"hash": "sha256=0"}},
            "pip install 'accelet[ui] @ https://example.com/accelet-0.1.0.tar.gz'",
        ),
        (
            {"url": "https://git.example.com/a.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"pip install 'accelet[ui] @ git+https://git.example.com/a.git@{COMMIT}'",
        ),
        (
            {
                "url": "ssh://git@example.com/all.git",
                "vcs_info": {"vcs": "git", "commit_id": COMMIT},
                "subdirectory": "accelet",
            },
            f"pip install 'accelet[ui] @ git+ssh://git@example.com/all.git@{COMMIT}#subdirectory=accelet'",
        ),
    ],
)
def test_an_extra_is_taken_from_where_the_rest_came_from(origin: dict[str, object] | None, said: str) -> None:
    assert install_command("ui", "0.1.0", None if origin is None else json.dumps(origin)) == said


@given(st.text() | st.dictionaries(st.text(), st.text()).map(json.dumps))
def test_a_damaged_note_still_gives_one_sentence(origin: str) -> None:
    assert install_command("ui", "0.1.0", origin).startswith("pip install ")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0/?#[]@:"), min_size=1))
def test_a_shell_takes_a_folder_with_its_extra_as_one_word(name: str) -> None:
    origin = {"url": Path("/", name).as_uri(), "dir_info": {}}
    words = shlex.split(install_command("ui", "0.1.0", json.dumps(origin)))
    assert words[:2] == ["pip", "install"]
    assert words[2:] == [f"{Path('/', name)}[ui]"]


def test_what_pip_notes_of_a_wheel_is_understood(tmp_path: Path) -> None:
    """pip itself installs a wheel of a file; nothing is fetched."""
    wheel = tmp_path / "accelet-7.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr(
            "accelet-7.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: accelet\nVersion: 7.0\n"
        )
        made.writestr(
            "accelet-7.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr("accelet-7.0.dist-info/RECORD", "")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*command, "--target", str(tmp_path / "site"), str(wheel)], check=True, capture_output=True
    )
    noted = Distribution.at(tmp_path / "site" / "accelet-7.0.dist-info").read_text("direct_url.json")
    assert install_command("ui", "7.0", noted) == f"pip install {shlex.quote(f'{wheel}[ui]')}"


def test_this_installation_says_something_to_type() -> None:
    assert "ui" in explain_install("ui")
