"""What there is: nodes, where they are, and what is free on them.

Pure: values in, values out.

apart        Pods that keep others away from their node, as kube-scheduler's plugin InterPodAffinity judges
             it.
cardroom     Room on nodes with cards: amounts as on any node, and within each node cards and tiles.
cluster      The nodes of a cluster and what is free on them, kept up with events.
eligibility  Whether a node may take a pod at all, as kube-scheduler judges it.
hostports    Which pods have which ports of their nodes, and what that leaves to others, as kube-scheduler
             judges it.
layout       A cluster's nodes as leaves of the topology, and which of them a pod's rules allow.
reach        From which nodes the volumes of a pod can be reached, as kube-scheduler judges it.
residents    Which pods each node is charged with, as facts: plans are checked by them.
room         What is free on each node while gangs are planned one after the other.
shape        What a pod asks of a node, without who asks; and rules between pods of one node, as amounts it
             asks for.
spread       Pods of a gang that must be spread over nodes, as kube-scheduler's plugin PodTopologySpread
             judges it.
supposing    What would be free on the nodes if some pods were gone, and others there.
together     Pods of a gang that must be beside each other, as kube-scheduler's plugin InterPodAffinity judges
             it.
topology     Where nodes are in the network: a tree read from their labels, and the distance it implies.
usage        How much of each node is taken: an account in which one pod's event costs the same in any
             cluster.
volumes      PersistentVolumes, their claims and classes, as far as they say on which nodes pods can be.
"""
