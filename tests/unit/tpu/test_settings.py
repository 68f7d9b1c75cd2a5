from typing import Any

import msgspec
import pytest

from accelet.accelerators.tpu.settings import TpuSettings


def problems(**settings: Any) -> list[tuple[tuple[str | int, ...], str]]:
    return [(problem.field, problem.sentence) for problem in TpuSettings(**settings).problems()]


def test_defaults_are_the_documented_ones() -> None:
    assert msgspec.to_builtins(msgspec.convert({}, TpuSettings)) == {
        "mode": "whole-host",
        "check": "strict",
        "half_bounds": "1,4,1",
        "visible_chips": "container",
        "topology": None,
        "node_labels": False,
        "control_service": "node-ip",
        "processes": "one",
        "log_folder": "/tmp/tpu_logs",
    }
    assert problems() == []


def test_everything_may_be_set_for_parts_of_hosts() -> None:
    assert (
        problems(
            mode="sub-host",
            check="lenient",
            half_bounds="2,2,1",
            visible_chips="ordinal",
            topology="2x4",
            node_labels=True,
            control_service="unix",
            log_folder=None,
        )
        == []
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"check": "lenient"}, [(("check",), "has a meaning only with mode: sub-host")]),
        ({"half_bounds": "2,2,1"}, [(("half_bounds",), "has a meaning only with mode: sub-host")]),
        ({"visible_chips": "ordinal"}, [(("visible_chips",), "has a meaning only with mode: sub-host")]),
        ({"processes": "per-chip"}, [(("processes",), "has a meaning only with mode: sub-host")]),
        (
            {"mode": "sub-host", "processes": "per-chip", "visible_chips": "ordinal"},
            [(("visible_chips",), "has a meaning only with processes: one")],
        ),
        (
            {"topology": "2 by 4"},
            [(("topology",), "'2 by 4' is not a shape of chips such as 2x4 or 2x2x4")],
        ),
        ({"log_folder": "logs"}, [(("log_folder",), "'logs' is not an absolute path without '..'")]),
        ({"log_folder": "/a/../b"}, [(("log_folder",), "'/a/../b' is not an absolute path without '..'")]),
    ],
)
def test_each_contradiction_is_told_with_its_field(settings: dict[str, Any], expected: list[Any]) -> None:
    assert problems(**settings) == expected


@pytest.mark.parametrize("settings", [{"mode": "half"}, {"shares": 2}, {"control_service": "tcp"}])
def test_wrong_types_and_unknown_keys_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(settings, TpuSettings)


def test_two_resources_cannot_share_the_chips_of_a_host() -> None:
    assert TpuSettings().overlaps(TpuSettings(mode="sub-host"))
