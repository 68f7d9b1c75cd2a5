"""Slices on demand: what jobs ask for, the pools of machines that it takes, and who makes them.

It may import the rows below; no other process. What inside may import what stands in pyproject.toml.

bookings/    ProvisioningRequests of our class: what a queue asks for a JobSet or Job before it lets it run.
books/ =     Requests summed up and looked up without going over all of them: kept up with each change of one.
deciding/ =  What is done next for one slice: pure, from what is written down and what is there.
demand/ =    What JobSets, Jobs and LeaderWorkerSets ask for, read from the owners themselves.
identity/    Who a slice's workers are: their numbers and names, and the admission policies that give them
             these.
pools/ =     The pool of machines that a slice is: how many, of which type, where, and by which name.
providers/   Who makes pools: one small protocol, and one package for each provider.
choice       The provider that the settings name.
controller   Looks at owners and requests one at a time, and does the next step of each.
events       Says as Events what becomes of slices, on the SliceRequest and on its owner.
metrics      What the provisioner counts.
nodes        Nodes of slices: what we read of them, and the patches that open and close them.
offline      What would be made for the owners in a file, without a cluster.
operations   The provider at work: one list of pools for everybody, and requests that hold up nobody.
planning =   From what a SliceRequest asks for to the pools that are tried for it, one after the other.
process      The provisioner's process: it watches always and provisions while it leads.
record       SliceRequests as the API server has them, and the status that a decision's record becomes.
settings     The provisioner's settings file.
state        What there is, as the watches tell it, and the view of it that one decision takes.
watching     Watches everything the provisioner looks at, and keeps the state up with it.
writer       Writes to the API server what was decided; repeating any of it does no harm.
"""
