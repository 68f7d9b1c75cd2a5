from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DEVICE_ID_PATTERN
from accelet.accelerators.files.globs import expand_glob, find_fault, globs_meet
from accelet.accelerators.files.ids import name_unit
from accelet.accelerators.hostfiles import exists_on_host


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "video0",
        "video1",
        "video10",
        ".hidden",
        "tty^",
        "tty*",
        "snd/pcmC0D0c",
        "snd/pcmC1D0c",
        "dri/by-path/x",
    ):
        (tmp_path / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dev" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("glob", "matches"),
    [
        ("/dev/video0", ["/dev/video0"]),
        ("/dev/video*", ["/dev/video0", "/dev/video1", "/dev/video10"]),
        ("/dev/video?", ["/dev/video0", "/dev/video1"]),
        ("/dev/video[^0]", ["/dev/video1"]),
        ("/dev/video[0-1]", ["/dev/video0", "/dev/video1"]),
        ("/dev/snd/pcmC?D0c", ["/dev/snd/pcmC0D0c", "/dev/snd/pcmC1D0c"]),
        ("/dev/*/pcmC1*", ["/dev/snd/pcmC1D0c"]),
        ("/dev/*hidden", ["/dev/.hidden"]),
        (r"/dev/tty\*", ["/dev/tty*"]),
        ("/dev/video[!0]", ["/dev/video0"]),
        ("/dev/video[0^]", ["/dev/video0"]),
        ("/dev/video[a0-]", ["/dev/video0"]),
        (r"/dev/tty[\^]", ["/dev/tty^"]),
        ("/dev/**/x", []),
        ("/dev/nothing*", []),
        ("/dev/video0/x", []),
        ("//dev//video0", ["/dev/video0"]),
        ("/dev", ["/dev"]),
    ],
)
def test_matches_as_go_does(root: Path, glob: str, matches: list[str]) -> None:
    assert list(expand_glob(root, glob)) == matches
    assert find_fault(glob) is None


@pytest.mark.parametrize(
    "glob",
    [
        "/dev/[",
        "/dev/video[0",
        "/dev/x\\",
        "/dev/[z-a]",
        "/dev/[?--]",
        "/dev/../etc/shadow",
        "/dev/./x",
        "/a\0b",
    ],
)
def test_faults_are_found_before_any_scan(glob: str) -> None:
    fault = find_fault(glob)
    assert fault
    assert len(fault.split()) > 3


@given(st.text(alphabet="ab*?[]^\\/-.!", max_size=20))
def test_no_text_makes_matching_fail(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.getbasetemp() / "globs"
    root.mkdir(exist_ok=True)
    (root / "ab").touch()
    if find_fault(f"/{text}") is None:
        expand_glob(root, f"/{text}")
        globs_meet(f"/{text}", "/ab")


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("/dev/video0", "/dev/video*", True),
        ("/dev/video*", "/dev/video*", True),
        ("/dev/video0", "/dev/fuse", False),
        ("/dev/snd/x", "/dev/*", False),
        ("/dev/video*", "/dev/*0", False),  # open: left to the scan
    ],
)
def test_patterns_meet(one: str, other: str, *, meet: bool) -> None:
    assert globs_meet(one, other) == meet
    assert globs_meet(other, one) == meet


def test_links_are_followed_below_the_hosts_root(root: Path) -> None:
    (root / "dev/camera").symlink_to("video0")
    (root / "dev/absolute").symlink_to("/dev/video1")
    (root / "dev/dangling").symlink_to("video7")
    (root / "dev/outside").symlink_to("/etc/hostname")
    (root / "dev/loop").symlink_to("/dev/loop")
    assert exists_on_host(root, "/dev/camera")
    assert exists_on_host(root, "/dev/absolute")
    assert not exists_on_host(root, "/dev/dangling")
    assert not exists_on_host(root, "/dev/outside")
    assert not exists_on_host(root, "/dev/loop")


def test_plain_paths_are_their_own_names() -> None:
    assert name_unit(["/dev/fuse"]) == "dev-fuse"
    assert name_unit(["/dev/dri/renderD128"]) == "dev-dri-renderD128"


def test_names_that_do_not_tell_their_path_carry_a_hash() -> None:
    assert name_unit(["/dev/vhost-net"]) != name_unit(["/dev/vhost/net"])
    assert name_unit(["/dev/vhost-net"]).startswith("dev-vhost-net-")


paths = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=90).map("/dev/".__add__)


@given(st.lists(paths, min_size=1, max_size=3), st.lists(paths, min_size=1, max_size=3))
def test_unlike_paths_have_unlike_names_that_fit_with_any_share(one: list[str], other: list[str]) -> None:
    assert DEVICE_ID_PATTERN.fullmatch(f"{name_unit(one)}-s9999")
    normal = [[path.strip("/") for path in paths] for paths in (one, other)]
    if normal[0] != normal[1]:
        assert name_unit(one) != name_unit(other)
