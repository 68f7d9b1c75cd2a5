"""What an allocated claim means on this node, and how its containers come by it.

abandoned   Which allocations are given up without Unprepare, by what the API server and the kubelet show.
cdi         CDI files as values: what a container runtime reads for a claim's devices.
checkpoint  The driver's record of prepared claims as a document: versioned, with checksums over its bytes.
claim       A ResourceClaim, as far as its allocation concerns one driver; read strictly: tenants write it.
claimtable  All claims that are prepared on a node, found by what they hold and are called without a look at
            each.
conditions  The condition `Ready` of a claim's devices, in its `status.devices`, as far as one driver writes
            it.
consumers   Which of its pod's claims each container uses, read from the pod.
decide      What becomes of one claim: an entry to be remembered with its CDI file, or why not.
entry       A claim that is prepared on this node, as the driver remembers it.
explaining  What a pod's containers have by claims, and whether all who speak of it agree.
grant       From what a claim holds to the files and the environment its containers get.
hold        Hardware that claims hold, and whether another may be held beside it.
instead     The claim to write instead of extended resources that only device plugins can serve together.
notices     What is said of a claim whose devices fall ill while it holds them, and when they are well again.
opaque      What claims and classes may tell the driver of GPUs; anything else is refused.
views       What a claim's devices set in the environment of containers, proven right for each of them, or
            refused.
"""
