"""One node: its kubelet's folders, sockets and records, its agent, its configuration.

agent =      Judges the agent's side of a node: its configuration, its resources, what it may do, its clock.
agentport    Asks the node's agent at its own port: its readiness, and what it counts.
hardware     Reads the configuration, and what this node has of it.
judgement =  All verdicts on a node, of which each cause counts once: what follows from it is a note.
kubelet =    Judges the kubelet's side of a node: its folders, its sockets, its records.
look         Looks at a node, all of it within a time.
places       Looks at the kubelet's folders and sockets.
seen =       What was seen on a node, as values; `None` or a sentence says that something could not be seen.
"""
