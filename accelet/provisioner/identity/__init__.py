"""Who a slice's workers are: their numbers and names, and the admission policies that give them these.

children =        The Jobs and pods that controllers make, with the marks by which their workers are known.
expressions =     The rules of this folder in CEL, for the API server; each function returns the text of an
                  expression.
hardware =        Whether there is a slice like the one that pods ask for.
hosts =           How many hosts a slice has, by product, topology and chips a pod: the accelerators' table,
                  flat.
names             Annotations, variables and limits of the workers' identity, each with where it comes from.
notices =         What authors are warned of: it may work, and nobody can tell.
podstage =        The stage of Pods in CEL: worker.py and its sentences, as the API server evaluates them.
policies =        The admission policies as objects: what a stage writes, what it refuses and what it warns
                  of.
sentences         What authors are told, once for the pure functions and for the policies: `{…}` are filled in
                  by both.
template =        What a pod, or a template of pods, says of TPUs and of its workers' identity.
worker =          One pod: the variables that make it a worker of its slice, or why it cannot be one.
workloads =       JobSets, Jobs and StatefulSets: what is written on their templates, and why they could not
                  work.
workloadstages =  The stages of JobSets, Jobs and StatefulSets in CEL: workloads.py, as the API server
                  evaluates it.
"""
