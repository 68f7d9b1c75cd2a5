"""The generated DRA code has the names of the wire and can be loaded beside the other protocols."""

import pytest
from google.protobuf.message import Message

from accelet.kubelet.api import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    drahealth_v1_pb2,
    drahealth_v1alpha1_pb2,
    podresources_pb2,
)


def test_methods_have_the_names_a_kubelet_calls() -> None:
    files = (dra_v1_pb2, dra_v1beta1_pb2, drahealth_v1_pb2, drahealth_v1alpha1_pb2)
    methods = {
        method.full_name
        for file in files
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert methods == {
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodePrepareResources",
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodeUnprepareResources",
        "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin.NodePrepareResources",
        "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin.NodeUnprepareResources",
        "v1.DRAResourceHealth.NodeWatchResources",
        "v1alpha1.DRAResourceHealth.NodeWatchResources",
    }


def test_health_v1_shares_its_protobuf_package_with_podresources() -> None:
    assert drahealth_v1_pb2.DESCRIPTOR.package == podresources_pb2.DESCRIPTOR.package == "v1"


def test_v1beta1_knows_no_share() -> None:
    assert "share_id" in dra_v1_pb2.Device.DESCRIPTOR.fields_by_name
    assert "share_id" not in dra_v1beta1_pb2.Device.DESCRIPTOR.fields_by_name


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            dra_v1_pb2.Device(
                request_names=["a"], pool_name="p", device_name="d", cdi_device_ids=["v/c=x"], share_id="s"
            ),
            b"\x0a\x01a\x12\x01p\x1a\x01d\x22\x05v/c=x\x2a\x01s",
        ),
        (dra_v1_pb2.Claim(namespace="n", uid="u", name="m"), b"\x0a\x01n\x12\x01u\x1a\x01m"),
        (
            drahealth_v1_pb2.DeviceHealth(
                device=drahealth_v1_pb2.DeviceIdentifier(pool_name="p", device_name="d"),
                health=drahealth_v1_pb2.UNHEALTHY,
                health_check_timeout_seconds=30,
                message="m",
            ),
            b"\x0a\x06\x0a\x01p\x12\x01d\x10\x02\x20\x1e\x2a\x01m",
        ),
    ],
)
def test_messages_are_those_of_the_wire(message: Message, wire: bytes) -> None:
    assert message.SerializeToString(deterministic=True) == wire


def test_an_empty_answer_for_a_claim_is_an_answer() -> None:
    answer = dra_v1_pb2.NodeUnprepareResourcesResponse()
    answer.claims["uid"].SetInParent()
    assert list(dra_v1_pb2.NodeUnprepareResourcesResponse.FromString(answer.SerializeToString()).claims) == [
        "uid"
    ]
