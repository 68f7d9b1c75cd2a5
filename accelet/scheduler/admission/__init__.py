"""What Kueue asks before it lets a job run: whether there is a place for all of its pods.

adopting =      From the plan for a Workload to that of its pods, once they are there: pure.
book =          What Kueue has: Workloads, our checks, flavors; kept up with events, without I/O or clock.
judging =       What is to be done for one Workload, and what its checks are to say: pure.
keeping         Has Workloads planned before they are admitted, keeps their room, and says what came of it.
kueue =         Kueue's Workloads, AdmissionChecks and ResourceFlavors (kueue.x-k8s.io/v1beta2), as far as we
                need them.
placeholders =  The pods that a Workload will have, made of its pod sets before they are there: pure.
podsets =       The pods that a Workload of Kueue will have, as its pod sets and its quota say.
telling         Reads Workloads, and writes what our checks say of them, and that we evaluate these.
topologies =    Kueue's Topology objects (kueue.x-k8s.io/v1beta2) as levels of the network.
watching        Keeps up with what Kueue has, where the settings say so, and tells the keeper of whoever
                leads.
"""
