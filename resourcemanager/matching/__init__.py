"""Whose call is this? Evidence in, a proof out, or what to ask next.

Pure: values in, values out.

admissions  What is remembered of the pods that one life of the kubelet admits, and in which order it comes to
            them.
answered    What the answer to a call tells of the kubelet's admissions.
caller      Finds the container that a call of the kubelet is for.
candidates  What one pod may be asking for, read against the ledger and against what podresources shows of it.
doubts      What to say when it cannot be told whom a call is for.
exclusion   Finds the container a call is for where podresources also shows pods that were turned away.
inquiry     The search for the container that a call of the kubelet is for: what is known so far, what to ask
            next.
openings    Which containers of a pod a call may be for.
screening   Finds the pods that the kubelet admitted before it knew the resource, and so without devices.
takenup     Finds the pods that the kubelet turned away and takes up again: a call may be for one of their
            containers.
"""
