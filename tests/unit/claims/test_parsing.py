"""Objects of the API as slim values: what is bounded, and what an error says."""

from typing import Any

import pytest

from accelet.claims.podclaims import PodClaim, parse_claiming_pod
from accelet.claims.requests import parse_claim, parse_claim_template, parse_device_class
from accelet.claims.slices import parse_slice
from accelet.kube.errors import MalformedObjectError

Json = dict[str, Any]


def _slice(**spec: Any) -> Json:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n", "pool": pool, **spec}}


def _claim(*requests: Json, **status: Any) -> Json:
    return {
        "metadata": {"name": "c", "namespace": "ml"},
        "spec": {"devices": {"requests": list(requests)}},
        "status": status,
    }


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (_slice(devices=[{"name": f"d{at}"} for at in range(129)]), "there are 129, more than the 128"),
        (
            _slice(devices=[{"name": "d", "attributes": {str(at): {"int": at} for at in range(33)}}]),
            "there are 33",
        ),
        (_slice(devices=[{"name": "d", "capacity": {"mem": {"value": "1 GB"}}}]), "is no quantity"),
        (_slice(devices=[{"name": "d", "basic": {}}]), "resource.k8s.io/v1beta1"),
        (_slice(devices=[{"name": "d", "taints": [{"key": "k", "effect": "None"}] * 17}]), "there are 17"),
        (_slice(sharedCounters=[{"name": str(at), "counters": {}} for at in range(33)]), "there are 33"),
        (_slice(pool={"name": 3}), "spec.pool.name"),
    ],
)
def test_slices_that_the_api_would_refuse_are_named(raw: Json, told: str) -> None:
    with pytest.raises(MalformedObjectError, match=told) as caught:
        parse_slice(raw)
    assert "ResourceSlice s" in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (_claim(*({"name": str(at), "exactly": {}} for at in range(33))), "there are 33"),
        (_claim({"name": "r"}), "neither exactly nor firstAvailable"),
        (_claim({"name": "r", "deviceClassName": "x"}), "v1beta1"),
        (_claim({"name": "r", "exactly": {"allocationMode": "Some"}}), "'Some' is not known"),
        (_claim({"name": "r", "firstAvailable": [{"name": str(at)} for at in range(9)]}), "there are 9"),
        (_claim({"name": "r", "exactly": {"capacity": {"requests": {"m": "x"}}}}), "is no quantity"),
    ],
)
def test_claims_that_the_api_would_refuse_are_named(raw: Json, told: str) -> None:
    with pytest.raises(MalformedObjectError, match=told) as caught:
        parse_claim(raw)
    assert "ml/c" in str(caught.value)


def test_what_a_claim_holds_is_read_with_its_nodes() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
    share = {**result, "shareID": "u", "consumedCapacity": {"mem": "1Gi"}}
    found = parse_claim(
        _claim(
            allocation={
                "devices": {"results": [result, share]},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            }
        )
    )
    assert found.held is not None
    assert [one.consumed for one in found.held] == [None, {"mem": 2**30}]
    assert found.reach is not None
    assert found.reach[0].fields[0].values == ("n",)
    assert parse_claim(_claim()).held is None


def test_templates_and_classes_are_read() -> None:
    template = {
        "metadata": {"name": "t", "namespace": "ml"},
        "spec": {"spec": _claim({"name": "r", "exactly": {}})["spec"]},
    }
    assert parse_claim_template(template).requests[0].name == "r"
    selectors = {"selectors": [{"cel": {"expression": "true"}}, {}], "extendedResourceName": "a.b/c"}
    found = parse_device_class({"metadata": {"name": "k"}, "spec": selectors})
    assert (found.selectors, found.extended_resource) == (("true", None), "a.b/c")


def test_a_pod_knows_its_claims_by_spec_and_status() -> None:
    claims = [
        {"name": "own", "resourceClaimTemplateName": "t"},
        {"name": "named", "resourceClaimName": "c"},
        {"name": "new", "resourceClaimTemplateName": "t"},
    ]
    raw = {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u"},
        "spec": {"resourceClaims": claims},
        "status": {
            "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own-x"}, {"name": "new"}]
        },
    }
    assert parse_claiming_pod(raw).claims == (
        PodClaim("own", "p-own-x", "t"),
        PodClaim("named", "c"),
        PodClaim("new", None, "t"),
    )
    raw["spec"] = {"resourceClaims": [{"name": str(at)} for at in range(257)]}
    with pytest.raises(MalformedObjectError, match="there are 257"):
        parse_claiming_pod(raw)
