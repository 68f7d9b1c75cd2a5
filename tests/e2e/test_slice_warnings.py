"""Who asks for TPU slices with a kind that gets none is told so by the API server, when it is applied."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.identity_api import JOBS, PODS, SETS, Api, suspended_job
from tests.unit.provisioner.manifests import PROVISION

Json = dict[str, Any]

POLICY = Path(__file__).parents[2] / "deploy" / "provisioner" / "policy.yaml"
NAME = "accelet-provisioner-not-served"
APPS = "/apis/apps/v1/namespaces/default"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
POD: Json = {"containers": [{"name": "main", "image": "none"}]}
OF_A_SET = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "a", "uid": "u", "controller": True}


def _named(annotations: dict[str, str], **spec: Any) -> Json:
    return {"metadata": {"name": "asks", "annotations": annotations}, "spec": spec}


def _set(annotations: dict[str, str]) -> Json:
    labels = {"app": "asks"}
    template = {"metadata": {"labels": labels}, "spec": POD}
    return _named(annotations, selector={"matchLabels": labels}, template=template)


def _cron_job(annotations: dict[str, str]) -> Json:
    job = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
    return _named(annotations, schedule="0 0 1 1 *", jobTemplate={"spec": job})


@pytest.fixture(scope="module")
def api(cluster: ControlPlane) -> Iterator[Api]:
    shipped = [one for one in yaml.safe_load_all(POLICY.read_text()) if one["metadata"]["name"] == NAME]
    assert len(shipped) == 2
    with closing(Api(cluster)) as api, cluster.workloads.applied(shipped):
        wait_until("it warns", lambda: _warning(api, PODS, _named(PROVISION, **POD)), timeout_s=60)
        yield api


def _warning(api: Api, path: str, body: Json) -> str:
    answer = api.send("POST", path, body)
    assert answer.status < 300, answer.body
    return answer.warning or ""


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (f"{APPS}/deployments", _set(PROVISION), "no TPU slices are made for a Deployment: "),
        (SETS, _set(PROVISION), "no TPU slices are made for a StatefulSet: "),
        (f"{APPS}/daemonsets", _set({"accelet.dev/provision": "True"}), "are made for a DaemonSet: "),
        (PODS, _named(PROVISION, **POD), "write it as one of these, or leave the annotation out"),
        (CRON_JOBS, _cron_job(PROVISION), "into spec.jobTemplate.metadata.annotations"),
    ],
)
def test_kinds_that_get_no_slices_are_warned_of_where_they_ask(
    api: Api, path: str, body: Json, words: str
) -> None:
    assert words in _warning(api, path, body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{APPS}/deployments", _set({})),
        (SETS, _set({"accelet.dev/provision": "false"})),
        (JOBS, {**suspended_job("asks"), "metadata": {"name": "asks", "annotations": PROVISION}}),
        (
            PODS,
            {
                "metadata": {"name": "asks", "annotations": PROVISION, "ownerReferences": [OF_A_SET]},
                "spec": POD,
            },
        ),
    ],
)
def test_nobody_else_is_warned(api: Api, path: str, body: Json) -> None:
    assert _warning(api, path, body) == ""
