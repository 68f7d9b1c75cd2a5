"""What `accelet demo tasks` runs: a cluster of cards without a cluster, and a story in it.

standin  Stands in for the Job controller, kube-scheduler, kubelets and programs of a cluster that is not
         there.
story    A cluster full in fragments, a big task that waits, and the one small task that makes room for it.
"""
