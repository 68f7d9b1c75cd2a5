"""How the hardware of a host is read, though it may not answer.

bridges        Which PCI bridges a function is behind.
devicememory   How much memory devices have, by the cgroup controller `dmem`.
hardwarereads  Reads of hardware that may never end, each on a thread that can be left behind.
pciconfig      Whether a PCI function still answers, by the first bytes of its configuration.
"""
