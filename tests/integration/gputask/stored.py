"""GPUTasks of a namespace `ml` at a fake API server, and what is stored there by now."""

from typing import Any

from accelet.fakeapi import FakeApi, Json

TASKS = "apis/accelet.dev/v1alpha1/gputasks"
JOBS, PODS = "apis/batch/v1/jobs", "api/v1/pods"


def ask(api: FakeApi, name: str, **spec: Any) -> Json:
    body = {"metadata": {"name": name, "generation": 1}, "spec": {"container": {"image": "app"}, **spec}}
    made: Json = api.state.create(TASKS, "ml", body)
    return made


def stored(api: FakeApi, resource: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in api.state.list(resource, {}, None)["items"]}


def task_status(api: FakeApi, name: str) -> Json:
    status: Json = stored(api, TASKS)[name].get("status") or {}
    return status
