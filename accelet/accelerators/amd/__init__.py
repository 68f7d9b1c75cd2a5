"""AMD's GPUs and their compute partitions, by files alone: of the PCI bus, of amdgpu and of KFD.

KFD is the part of amdgpu that programs compute by. It hides what the reader's device cgroup does not allow:
an agent that is not privileged sees whole GPUs, and no partitions.
"""
