"""What JobSets, Jobs, LeaderWorkerSets and RayClusters ask for, read from the owners themselves.

Pure: values in, values out.

capacity     The tier that pods insist on by the labels with which GKE says how a node's machine is bought.
groups       LeaderWorkerSets as owners of slices: each group of a leader and its workers runs on a slice of
             its own.
kept         Which slices of a LeaderWorkerSet are kept where it has fewer groups than slices.
owners       JobSets, Jobs and the like as values: what they say about their pods, and whether they still
             want them.
parsers      How each kind of owner is read.
rayclusters  RayClusters as owners of slices: each replica of a worker group runs on a slice of its own.
requests     From a wanted slice to the SliceRequest that stands for it.
selectors    What pods insist on of their node, sorted into what a new pool can promise and what it cannot.
slices       The slices that one owner asks for: as a set, all of them or none; those of groups each alone.
"""
