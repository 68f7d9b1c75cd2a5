"""Dynamic Resource Allocation: a node's accelerators as ResourceSlices, and claims prepared on it.

It may import `resourcemanager` and the rows below; no other process.

preparing/   What an allocated claim means on this node, and how its containers come by it.
publishing/  What of a node's hardware is published, and how the ResourceSlices come to say so.
running/     The driver at work: its record on disk, its sockets, its slices at the API server.
telling/     What the holders of claims are told of their devices: Events, and conditions in the status of the
             claim.
errors       What can go wrong with a claim.
lateapi      The API server for whoever cannot wait for it: a request finds a connection, or fails soon.
metrics      What drivers count.
names =      The names of drivers and of published devices, and what can be published.
pool =       What one driver offers on one node: devices, what each takes of the hardware, and counters for
             it.
"""
