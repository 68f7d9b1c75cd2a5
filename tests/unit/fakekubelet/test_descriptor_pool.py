"""The fake lives beside other people's generated code for the same protobuf files."""

import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2

from accelet.kubelet.api import deviceplugin_pb2

ROOT = Path(__file__).parents[3]

STORY = """
import sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Somebody else's code for the same file, in the process-wide pool.
files = descriptor_pb2.FileDescriptorSet.FromString(open(sys.argv[1], "rb").read())
for file in files.file:
    descriptor_pool.Default().Add(file)
theirs = message_factory.GetMessageClass(
    descriptor_pool.Default().FindMessageTypeByName("v1beta1.RegisterRequest")
)

from accelet.kubelet.api import deviceplugin_pb2 as ours
from accelet.fakekubelet import FakeKubelet

assert ours.RegisterRequest is not theirs
assert ours.RegisterRequest.DESCRIPTOR.full_name == theirs.DESCRIPTOR.full_name
assert ours.RegisterRequest.DESCRIPTOR.file.pool is not descriptor_pool.Default()
sent = theirs(version="v1beta1", endpoint="a.sock", resource_name="a.b/c").SerializeToString()
assert ours.RegisterRequest.FromString(sent).resource_name == "a.b/c"
print("both", FakeKubelet.__name__)
"""


def test_another_copy_of_the_same_protobufs_may_be_loaded_first(tmp_path: Path) -> None:
    copy = descriptor_pb2.FileDescriptorProto()
    deviceplugin_pb2.DESCRIPTOR.CopyToProto(copy)
    # As protoc makes it from a file of another name, for a package of another author.
    copy.name = "somebody/else/api.proto"
    files = tmp_path / "theirs.pb"
    files.write_bytes(descriptor_pb2.FileDescriptorSet(file=[copy]).SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", STORY, files], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("both FakeKubelet\n", "")
