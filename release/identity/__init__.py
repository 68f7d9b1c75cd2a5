"""The admission policies that give the workers of TPU slices their numbers and names, made of Python.

`accelet.provisioner.identity` has the same rules as pure functions; tests hold the two to each other.

expressions     The rules in CEL, for the API server; each function returns the text of an expression.
podstage        The stage of Pods: worker.py and its sentences, as the API server evaluates them.
policies        The admission policies as objects: what a stage writes, what it refuses and what it warns of.
workloadstages  The stages of JobSets, Jobs and StatefulSets: workloads.py, as the API server evaluates it.
"""
