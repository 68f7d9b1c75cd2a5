"""The record of prepared claims on files that cannot be written."""

from pathlib import Path

import pytest

from accelet.dra.errors import StateError
from accelet.dra.running.places import Places
from accelet.dra.running.records import ClaimRecords

GPU = "gpu.accelet.dev"


async def test_a_lock_that_cannot_be_opened_is_said_in_a_sentence(tmp_path: Path) -> None:
    places = Places(tmp_path / "kubelet", tmp_path / "cdi", GPU, "")
    (tmp_path / "kubelet").write_text("no folder")
    records = ClaimRecords(places)
    with pytest.raises(StateError, match="cannot be opened"):
        await records.do(records.read)


def test_a_file_that_cannot_be_swept_is_said_in_a_sentence(tmp_path: Path) -> None:
    places = Places(tmp_path / "kubelet", tmp_path / "cdi", GPU, "")
    (tmp_path / "cdi" / f"k8s.{GPU}-claim_old.json").mkdir(parents=True)
    with pytest.raises(StateError, match="cannot be removed"):
        ClaimRecords(places).sweep({})
