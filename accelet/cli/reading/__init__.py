"""What offline commands read.

asking          Asks the API server for a command of people, which ends with a sentence where there is no
                answer.
cardobjects     What says who holds which card: nodes, pods and plans; slices and claims of those served
                through DRA.
claimlists      Lists what decides on the claims of a cluster, once.
gatedpods       The pods that our gates hold: lists them, stops that more are held, and lifts the gates off
                them.
manifests       Reads manifests as people apply them: YAML documents or JSON, lists taken apart.
objectfiles     Reads what the offline commands work on: objects as kubectl prints them, and the scheduler's
                settings.
objectlists     Lists the nodes, pods, plans, slices and claims of a cluster, once.
podclaims       What is known of a pod's claims: the drivers' records on this node, and the API server.
preparedclaims  What a node has prepared of one claim, whether anybody has it, and undoing it by a person's
                word.
schedulerport   What the scheduler alone knows, asked at its HTTP port, which tells its own pod or host.
slicelists      Lists the slice requests of a cluster, once, and lets go of one.
volumes         Reads volumes, their claims and classes out of one list.
"""
