"""What `make bench-identity` measures: what a pod of a slice costs the API server, by the slice's hosts."""

import json
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from accelet.provisioner.identity.children import pod_of_job, stamped_job, worker_environment
from accelet.provisioner.identity.names import HOSTNAMES, TPU_ENV
from tests.e2e.cluster.binaries import cluster_binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.workspace import open_workspace
from tests.e2e.identity_api import JOBS, PODS, Api, identity_in_force, job_sets_known
from tests.unit.provisioner.manifests import job

Json = dict[str, Any]

SIZES = (
    ("tpu-v5p-slice", "2x2x4", 4),
    ("tpu-v5p-slice", "4x8x8", 64),
    ("tpu-v5p-slice", "8x16x16", 512),
    ("tpu7x", "16x24x24", 2304),
)
REQUESTS = 40


def main() -> None:
    with open_workspace() as workspace, ControlPlane(workspace, cluster_binaries(_say)) as cluster:
        cluster.start()
        with closing(Api(cluster)) as api, job_sets_known(cluster), identity_in_force(cluster, api):
            for accelerator, topology, hosts in SIZES:
                made = job(
                    accelerator=accelerator,
                    topology=topology,
                    pods=hosts,
                    subdomain="train",
                    restartPolicy="Never",
                )
                made["metadata"]["namespace"] = "default"
                pod = pod_of_job(stamped_job(made), 1)
                pod["metadata"]["ownerReferences"][0]["uid"] = "a-uid"
                given = worker_environment(pod)
                # What a Job's template would bring along: names before expansion, and nothing to write.
                carried = _with_environment(
                    pod, {k: v.replace("train-", "$(JOB)-") for k, v in given.items()}
                )
                del made["metadata"]["uid"]
                figures = {
                    "written on the pod": _median_ms(api, PODS, pod),
                    "carried from the Job": _median_ms(api, PODS, carried),
                    "no policy": _median_ms(api, PODS, _without_chips(pod)),
                    "the Job": _median_ms(api, JOBS, made),
                }
                told = ", ".join(f"{name} {figure:.0f} ms" for name, figure in figures.items())
                _say(f"{hosts:5} hosts, {len(given[HOSTNAMES]):6} bytes of names: {told}")


def _median_ms(api: Api, path: str, body: Json) -> float:
    times_ms: list[float] = []
    for _ in range(REQUESTS):
        began_s = time.perf_counter()
        answer = api.send("POST", path, body)
        times_ms.append(1000 * (time.perf_counter() - began_s))
        assert answer.status == 201, answer.body
    return statistics.median(times_ms)


def _with_environment(pod: Json, environment: Mapping[str, str]) -> Json:
    copy: Json = json.loads(json.dumps(pod))
    env = [{"name": name, "value": value} for name, value in environment.items()]
    copy["spec"]["containers"][0]["env"] = env
    copy["metadata"]["annotations"][TPU_ENV] = "off"
    return copy


def _without_chips(pod: Json) -> Json:
    copy: Json = json.loads(json.dumps(pod))
    del copy["spec"]["containers"][0]["resources"]
    return copy


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
