"""What has become of a pod, read from its object at the API server."""

from collections.abc import Collection

from tests.e2e.cluster.https_client import Json

NOT_YET = ("ContainerCreating", "PodInitializing", "CrashLoopBackOff")


def state(pod: Json, ended: Collection[str] = ()) -> str | None:
    """running, "rejected: ..." or "waiting: ..."; None when it is not decided.

    `ended` are ids of containers that are known to have ended: a status that shows one of them as running
    is older than that.
    """
    status = pod["status"]
    if status.get("phase") == "Failed" and "reason" in status:
        return f"rejected: {status['reason']}: {status['message']}"
    containers = status.get("containerStatuses", [])
    every = [*status.get("initContainerStatuses", []), *containers]
    if any("running" in each["state"] and container_id(each) in ended for each in every):
        return None
    for each in every:
        if (text := waits(each)) is not None:
            return text
    all_run = bool(containers) and all("running" in each["state"] for each in containers)
    return "running" if status.get("phase") == "Running" and all_run else None


def waits(container: Json) -> str | None:
    """Why a container waits, if it cannot be made."""
    waiting = container["state"].get("waiting")
    if waiting is None or waiting.get("reason") in NOT_YET:
        return None
    return f"waiting: {waiting.get('message', waiting.get('reason'))}"


def container_status(pod: Json, name: str) -> Json:
    status: Json = next(each for each in pod["status"]["containerStatuses"] if each["name"] == name)
    return status


def container_id(status: Json) -> str:
    """The runtime's id: without the runtime's name."""
    text: str = status.get("containerID", "")
    return text.rpartition("/")[2]
