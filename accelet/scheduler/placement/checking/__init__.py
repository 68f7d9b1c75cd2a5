"""Judges finished plans by the facts of pods and nodes, by nothing that was used to make them.

Pure: values in, values out.

cards      Whether the cards and tiles of a plan are what its pods ask for, and nobody else's.
occupants  Whether a plan keeps domains of the network to the gangs that have them to themselves.
owndomains  Whether a plan keeps domains to the Jobs, or groups, that are to have them to themselves.
peers      Whether the pods of a plan obey each other's rules: anti-affinity and topology spread of one node
           each.
promises   Whether a finished plan keeps every promise, judged anew from the facts of its pods and nodes.
room       Whether each node of a plan takes its pods: its rules, its amounts, its ports.
seats      A finished plan as who sits where: what every check of it looks at.
"""
