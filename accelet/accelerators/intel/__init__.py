"""Intel GPUs: what sysfs says of them, how they are offered, which tiles a container may see.

card =        A GPU as one scan saw it, and the devices it is offered as.
cardmemory =  What administrators say of the memory of cards whose kernel does not tell it.
edits =       What a container must be given to use exactly its GPUs and tiles.
gpu           The `intel-gpu` back-end: one resource's share of the node's Intel GPUs.
masks =       ZE_AFFINITY_MASK: which tiles of its GPUs a process may see, written and read.
match =       Which cards belong to a resource.
monitoring    The monitoring resource: one device that shows all GPUs of the node to one exporter.
scan          All Intel GPUs of a node, and every candidate that is none with its reason.
sysfs         What sysfs says of one GPU.
"""
