"""The examples of examples/dra on a node: what each pod's container sees by its claim."""

import json

import yaml

from tests.e2e.agent import device_pod
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.dra.oracle import VIEW, Part, parts_of, seen_in
from tests.e2e.dra.site import CLAIMS, GROUPS, PROJECT, Site

EXAMPLES = PROJECT / "examples" / "dra"
ROLES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
STAY = f"{VIEW}; env | grep TPU_; echo end; sleep 3600"


def run_each_role(site: Site) -> None:
    """Runs the pods of all examples side by side; each sees what its claim was given, and nobody twice."""
    made = {name: example(name) for name in ROLES}
    given: set[Part] = set()
    for template, pod in made.values():
        site.user.apply(template)
        site.user.apply(pod)
    for name in made:
        site.admin.wait_for_phase(name, "Running")
        parts = parts_of(allocated(site, name))
        assert seen_in(log_of(site, name), GROUPS) == parts
        if name != "monitor":
            assert given.isdisjoint(parts)
            given |= parts
    assert len({card for _, card, _ in parts_of(allocated(site, "two-tiles-of-one-card"))}) == 1
    chips = log_of(site, "four-chips").splitlines()
    assert {"TPU_CHIPS_PER_PROCESS_BOUNDS=1,4,1", "TPU_PROCESS_BOUNDS=1,1,1"} <= set(chips)


def example(name: str) -> list[Json]:
    """The claim template and a pod of one of the examples, with the image there is and a script to look."""
    template, pod = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    shown = device_pod(name, {}, script=STAY)
    shown["spec"]["resourceClaims"] = pod["spec"]["resourceClaims"]
    shown["spec"]["containers"][0]["resources"] = pod["spec"]["containers"][0]["resources"]
    return [template, shown]


def allocated(site: Site, pod: str) -> list[Json]:
    """The results of the claim that was made for a pod."""
    items = json.loads(site.admin.client.send("GET", CLAIMS))["items"]
    (claim,) = (c for c in items if c["metadata"]["ownerReferences"][0]["name"] == pod)
    results: list[Json] = claim["status"]["allocation"]["devices"]["results"]
    return results


def log_of(site: Site, pod: str) -> str:
    return wait_until(
        f"{pod} has looked",
        lambda: log if "end\n" in (log := site.admin.log(pod)) else None,
        timeout_s=30,
        evidence=lambda: site.admin.log(pod) + site.admin.describe_pod(pod),
    )
