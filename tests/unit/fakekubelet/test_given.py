"""What is wrong with an answer to Allocate, as a container runtime would find it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.conformance.given import (
    cdi_faults,
    doubled_paths,
    environment_faults,
    path_faults,
    permission_faults,
)
from accelet.kubelet.api import deviceplugin_pb2 as api

Answer = api.ContainerAllocateResponse
JUDGES: tuple[Callable[[Answer], list[str]], ...] = (
    path_faults,
    doubled_paths,
    permission_faults,
    cdi_faults,
    environment_faults,
)

words = st.from_regex(r"[a-z][a-z0-9]{1,8}", fullmatch=True)
paths = st.lists(words, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Answers that a container can be started with."""
    places = draw(st.lists(paths, unique=True, max_size=6))
    split = draw(st.integers(0, len(places)))
    kinds = st.tuples(words, words, words).map(lambda each: f"{each[0]}.com/{each[1]}={each[2]}")
    return Answer(
        envs=draw(st.dictionaries(words, texts, max_size=3)),
        mounts=[
            api.Mount(container_path=path, host_path=draw(paths), read_only=draw(st.booleans()))
            for path in places[:split]
        ],
        devices=[
            api.DeviceSpec(
                container_path=path,
                host_path=draw(paths),
                permissions="".join(sorted(draw(st.sets(st.sampled_from("rwm"), min_size=1)))),
            )
            for path in places[split:]
        ],
        annotations=draw(st.dictionaries(words, texts, max_size=2))
        | {
            f"cdi.k8s.io/{name}": ",".join(draw(st.lists(kinds, min_size=1))) for name in draw(st.sets(words))
        },
        cdi_devices=[api.CDIDevice(name=name) for name in draw(st.lists(kinds, max_size=3))],
    )


def found(answer: Answer) -> list[str]:
    """The judges that find something."""
    return [judge.__name__ for judge in JUDGES if judge(answer)]


@given(answers())
def test_nothing_is_wrong_with_what_a_container_can_be_started_with(answer: Answer) -> None:
    assert found(answer) == []


@given(answers(), st.sampled_from(["rwx", "", "RW", "a", "r w"]))
def test_unknown_permissions_are_found_whatever_else_is_there(answer: Answer, permissions: str) -> None:
    answer.devices.add(container_path="/dev/odd/one", host_path="/dev/null", permissions=permissions)
    assert found(answer) == ["permission_faults"]


@given(answers(), st.sampled_from(["", "dev/null", "./dev/null", "/dev/\0null"]))
def test_a_host_path_that_is_none_is_found_whatever_else_is_there(answer: Answer, path: str) -> None:
    answer.mounts.add(container_path="/run/odd/one", host_path=path)
    assert found(answer) == ["path_faults"]


@pytest.mark.parametrize("path", ["/", "//", "/.", "/a/..", "run/x", ""])
def test_a_container_path_that_is_none_is_found(path: str) -> None:
    answer = Answer(mounts=[api.Mount(container_path=path, host_path="/dev")])
    assert found(answer) == ["path_faults"]


@given(answers(), st.sampled_from(["{}/", "{}/.", "/{}"]))
def test_a_path_that_is_given_twice_is_found_however_it_is_written(answer: Answer, form: str) -> None:
    for host in ("/dev/zero", "/dev/null"):
        written = form.format("/dev/odd/one") if host == "/dev/null" else "/dev/odd/one"
        answer.devices.add(container_path=written, host_path=host, permissions="rw")
    assert found(answer) == ["doubled_paths"]
    assert len(doubled_paths(answer)) == 1


def test_the_same_thing_given_twice_is_no_fault() -> None:
    device = api.DeviceSpec(container_path="/dev/a", host_path="/dev/null", permissions="rw")
    mount = api.Mount(container_path="/run/a", host_path="/run/b", read_only=True)
    assert found(Answer(devices=[device, device], mounts=[mount, mount])) == []


@pytest.mark.parametrize(
    "name",
    ["", "dev-0", "a/b", "a=b", "/b=c", "a/=c", "a/b=", "1a/b=c", "a/b=-c", "a/b=c,d", "a/b/c=d", "ä/b=c"],
)
def test_a_cdi_device_without_its_kind_is_found_as_one_and_in_annotations(name: str) -> None:
    assert found(Answer(cdi_devices=[api.CDIDevice(name=name)])) == ["cdi_faults"]
    assert found(Answer(annotations={"cdi.k8s.io/x": name})) == ["cdi_faults"]
    assert found(Answer(annotations={"example.com/x": name})) == []


@pytest.mark.parametrize(("name", "value"), [("A=B", "1"), ("", "1"), ("=", "1"), ("A", "1\0"), ("A\0", "1")])
def test_a_variable_that_no_process_can_have_is_found(name: str, value: str) -> None:
    assert found(Answer(envs={"FINE": "1", name: value})) == ["environment_faults"]
