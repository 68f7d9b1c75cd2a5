"""One cluster: what of accelet runs in it, what that may do, its nodes, and the pods that wait.

judgement =  All verdicts on a cluster.
listing      Lists what a cluster has, of each kind once; what cannot be listed is noted, and no error.
look         Looks at a cluster, all of it within a time.
network =    Judges whether nodes say where they are in the network, as the scheduler reads it.
nodes =      Judges the nodes of a cluster: their kubelets, their clocks, what they offer.
objects =    Reads objects of the API: of each only the fields named here.
policies =   Judges the admission policies: that each there should be is there, bound, and refuses.
processes =  Judges what of accelet runs in a cluster: its processes, who leads, what they may do and are told
             to do.
seen =       What was seen in a cluster, as values: of each object only what is judged.
waiting =    Judges the pods that wait: for names that nobody offers, behind taints, for a scheduler, for
             room.
"""
