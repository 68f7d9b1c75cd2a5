"""Which nodes a gang gets.

Pure: values in, values out.

checking/     Judges finished plans by the facts of pods and nodes, by nothing that was used to make them.
podsets/      Places for gangs whose pod sets are each to be in one domain of a level of their own.
repairs/      What becomes of a gang whose pods are partly placed.
backlog       Many gangs and one cluster: who goes first, who may overtake, and for whom nodes are kept free.
certificate   What any placement of a gang costs at least, whatever its pods are.
coarse        Pods of very many kinds taken for pods of few, rounded up to be placed and down to be judged.
fallback      Quick placements of unlike pods by rules of thumb, and the sure one for one pod a leaf.
gangproblems  What is to be solved to place a gang: within which domains, in which room, beside whom.
identical     Places for like pods: provably the least distance, then the least room left over in used
              domains.
knapsack      Two knapsacks: the cheapest domains that hold a number of like pods, and leaves for two groups
              of pods.
monotone      The best placement of unlike pods that visits leaves in a given order, each with one run of
              ranks.
plan          Gangs in order and a cluster to a plan: who sits where, how far apart, how well proven, or why
              not.
problem       Unlike pods to be placed, in the terms in which every search of them thinks.
refusals      Gangs that found no place: remembered until room that they could use has grown.
reservation   Nodes that are kept free for a gang that has waited long.
search        The best placement of a few unlike pods on a few nodes, by trying them all within a limit.
shares        Whose nodes were kept free for how long: no namespace has any kept all the time while others
              wait.
unlike        Places for unlike pods: as near as several searches find within a budget, with what is proven of
              it.
why           Why a gang has to wait, as a sentence for people: which constraint, and how short.
"""
