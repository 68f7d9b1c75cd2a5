"""Who holds what, from the kubelet's records and our own answers.

Pure: values in, values out.

assigned   What is assigned on this node: each pod's annotations, read once.
doubles    Devices that the kubelet gave twice.
evidence   What is known from outside when devices are handed out: the kubelet's records and the pods of this
           node.
ledger     Who holds which devices of one resource, as far as the kubelet's own records and our answers tell.
reconcile  Brings the ledger in line with what the kubelet's records and the API server say.
strangers  Hardware that containers hold by other ids, or as another resource, than it is served by now.
"""
