"""AMD's GPUs and their compute partitions, by files alone: of the PCI bus, of amdgpu and of KFD.

KFD is the part of amdgpu that programs compute by. It hides what the reader's device cgroup does not allow:
an agent that is not privileged sees whole GPUs, and no partitions.

backend    The `amd-gpu` back-end: one resource's share of the node's AMD GPUs and partitions.
functions  One of AMD's PCI functions as the GPU or the partitions to serve, or why there is none.
gpu        An AMD GPU or one of its partitions as one scan saw it, and the devices it is offered as.
scan       All AMD GPUs and partitions of a node, and every candidate that is none with its reason.
settings   The settings of the `amd-gpu` back-end.
topology   What KFD says of GPUs and partitions, under /sys/class/kfd/kfd/topology.
"""
