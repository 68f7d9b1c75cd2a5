"""Speaks the kubelet's device plugin API.

It may import `resourcemanager` and the rows below; no other process.

allocator       Who answers the kubelet's two questions about a resource.
freeing         Has the kubelet take devices from pods that have ended, where nothing else tells that they
                have.
identity        Answers the kubelet for a resource whose containers get what they are assigned.
listingupdater  Takes each scan over into a resource's manager; logs and counts what the kubelet will be told
                otherwise.
metrics         What is counted of device plugins.
plugin          One resource's life with the kubelet: serve, register, watch; the first to end ends all, then
                again.
reconciler      Keeps a resource's ledger in line with the kubelet's records and the API server, and says what
                changed.
registration    Tells the kubelet that a resource exists.
screening       Asks the kubelet, at each registration, which pods it admitted before it knew the resource.
search          Gathers the evidence that matching asks for, until it knows whose a call is or that it cannot
                be told.
service         The DevicePlugin gRPC service of one resource; here alone errors become status codes.
sockets         The socket files of our registrations in the kubelet's directory.
translate =     Our values as device plugin messages.

One registration's life: a new socket is served, `Register` is called, and the kubelet opens its stream. The
first of these ends it: the stream ends, our own socket is gone, kubelet.sock is replaced, or the audit
differs. Then it rests, by a back-off or, where kubelet.sock is new, not at all, and begins again.

A kubelet restart is no special case. The old server ends, and its stream is seen to end, before the new one
registers: up to 1.36 the kubelet disconnects whatever is registered when it notices the end of an old stream.
"""
