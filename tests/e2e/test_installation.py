"""What deploy/kustomization.yaml makes is what a real API server takes."""

import json

from tests.e2e.cluster.workloads import COLLECTIONS, Workloads
from tests.kustomize import DEPLOY, build


def test_every_part_is_admitted_to_the_letter(workloads: Workloads) -> None:
    for manifest in build(DEPLOY):
        kind, metadata = manifest["kind"], manifest["metadata"]
        path = COLLECTIONS[kind].format(namespace=metadata.get("namespace"))
        # Only judged: there is no image here to run, and the policies would judge other tests.
        answer = workloads.client.send("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        assert json.loads(answer)["metadata"]["name"] == metadata["name"]
