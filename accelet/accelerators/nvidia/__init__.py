"""NVIDIA's GPUs, by files alone: of the PCI bus, of NVIDIA's driver and of CDI specifications.

Nothing here calls NVIDIA's library (NVML). What no file says is not known: memory, MIG profiles, NVLink.

backend      The `nvidia-gpu` back-end: one resource's share of the node's NVIDIA GPUs, or of their MIG
             instances.
driverfiles  What NVIDIA's driver says of one GPU under /proc/driver/nvidia.
functions    One of NVIDIA's PCI functions as a GPU to serve, or why it is none.
instances    A MIG instance of a GPU as one scan saw it, and the devices it is offered as.
gpu          An NVIDIA GPU as one scan saw it, and the devices it is offered as.
naming       Under which name a CDI specification has a GPU or a MIG instance.
scan         All NVIDIA GPUs of a node, and every candidate that is none with its reason.
settings     The settings of the `nvidia-gpu` back-end.
"""
