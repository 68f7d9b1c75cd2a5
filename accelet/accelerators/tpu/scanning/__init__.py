"""What a node's files say of its TPUs.

health  How well a chip is, without opening its device file.
scan    Finds the TPU chips of a host from its PCI bus.
sysfs   Google's functions on a host's PCI bus, as sysfs describes them.
"""
