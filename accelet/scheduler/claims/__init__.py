"""Which devices kube-scheduler would give to the claims of a pod on a node: its first fit, replayed.

Rules are those of k8s.io/dynamic-resource-allocation 0.36, structured/internal/incubating. That allocator is
the one kube-scheduler 1.36 uses by default.

capacity     How much of a device's capacity a request takes.
constraints  Rules between the devices of one claim: they share an attribute, or differ in it.
firstfit     First fit for all claims of one pod on one node.
holdings     Who holds which devices: counted, so that a device given twice is held until both have gone.
outlook      What becomes of claims: who holds what, and where those that wait would get devices.
pools        The pools of devices that one node can use, as kube-scheduler gathers them.
"""
