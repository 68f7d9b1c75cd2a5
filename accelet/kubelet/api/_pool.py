"""The descriptor pool of the generated code, apart from the process-wide default.

Other packages carry generated code for the same protobuf packages (`v1beta1`, `v1`), and two
definitions of one message in one pool fail at import. A pool of our own lets both live in one process.
"""

from google.protobuf.descriptor_pool import DescriptorPool

_POOL = DescriptorPool()


def Default() -> DescriptorPool:  # noqa: N802 - stands in for google.protobuf.descriptor_pool.Default
    return _POOL
