"""Who wants to go where.

Pure: values in, values out.

annotations   What the pods of a gang say of it in their annotations.
drivers       Owners one of whose pods directs the others: Ray clusters, Spark applications, jobs of the MPI
              operator.
exclusions    Nodes on which kube-scheduler or the API server would not have a pod that was to go there.
exclusive     A domain of the network for one gang alone: whose pods count, which domains are closed to whom,
              and why.
grouping      Gated pods grouped into gangs, in rank order, with what they ask for as a whole.
jobs          What a Job makes of pods that it loses before they run, and whether it may be stopped and begun
              again.
levels        Which level of the network a gang's pods must or had best share, said in our annotations or in
              Kueue's.
noting        Why a gang waits, as it is noted on its first pod: pure.
placeholders  Pods that are planned before they are there: told from real ones by a name that no pod can have.
podgroups     Kubernetes' own PodGroups (scheduling.k8s.io): what they say of the gang that their pods are.
podsets       Pod sets of a gang, as Kueue counts them, and which level of the network each of them asks for.
rank          A pod's rank in its job: from an index if it has one, else from its name.
rankslices    Slices of a gang or a pod set: so many pods that follow each other in rank, each slice near
              together.
staging       Owners that make their pods in stages: how many of them they will make now.
withheld      Pods that a gang waits for and that their controller does not make while it is gated.
workload      What an owner of pods says about their number.
"""
