"""What every controller is made of: a work queue, a lease, and what writes.

It may import `accelet.kube` and the rows below; no controller.

errors =         What can keep a controller from its work; each text is a sentence for people.
installed        How this installation is given one of its extras: from where it was installed itself.
lease            One leader at a time, by a Lease of the API server.
leaserecord =    A Lease as a value, and what a candidate does about it.
pacing           Work that costs much: in parts, not too often, and not again at once for those it did
                 nothing for.
process          A controller's process: it watches always and acts while it leads.
refusedstatuses  Objects whose status the API server refuses for what it says: each is tried again ever later.
status =         What is to be written of an object's status.
walltime =       Waits that are written down by the time of day, which may be set back.
watches          Tables of kinds that a controller watches: each kind by itself, so that a fault in one ends
                 no other.
workqueue        Keys that somebody must look at: each once, however often it was said, and never twice at a
                 time.
writer           Writes to the API server with a fence before each: is it still ours to write?
"""
