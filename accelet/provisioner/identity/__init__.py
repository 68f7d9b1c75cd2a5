"""Who a slice's workers are: their numbers and names, which admission policies write on their pods.

The same rules stand in CEL, for the API server: `release.identity` makes the policies of deploy/identity.

children =   The Jobs and pods that controllers make, with the marks by which their workers are known.
hardware =   Whether there is a slice like the one that pods ask for.
hosts =      How many hosts a slice has, by product, topology and chips a pod: the accelerators' table, flat.
names        Annotations, variables and limits of the workers' identity, each with where it comes from.
sentences    What authors are told, once for the pure functions and for the policies: `{…}` are filled in by
             both.
template =   What a pod, or a template of pods, says of TPUs and of its workers' identity.
worker =     One pod: the variables that make it a worker of its slice, or why it cannot be one.
workloads =  JobSets, Jobs and StatefulSets: what is written on their templates, and why they could not work.
"""
