"""What any service on a node is made of.

It may import `accelet.kube`, hardware and the rows below; no service of a node.

pods/             The pods of this node, as the API server has them and lately had them.
publishing/       Which cards are published, and where: on the Node, in a feature file.
apiconnection     The one connection to the API server of everybody on this node who asks it.
audit             Compares what the kubelet believes with what it was told; where they differ, a resource
                  registers anew.
callsunderway     The calls of the kubelet that are being answered, so that a server ends after them.
directorylock     One agent at a time serves from the kubelet's directory.
discovery         Scans one resource's hardware on a timer and on hints, and hands on what the resource may
                  serve of it.
inventorymemory   What resources want to know of their earlier inventories, kept in a file through restarts of
                  the agent.
kubeletdirectory  The kubelet's directory for device plugins: waited for, locked and watched for the end of a
                  kubelet.
kubeletrecords    The kubelet's own record of who holds which devices, read when it is another one.
kubeletsocket     Whether a kubelet runs, by the socket at which device plugins register.
metrics           What every service on a node counts, whatever it serves its devices by.
namelocks         Locks by name that the processes of a node share: held until given up, or until the holder
                  dies.
nodeview          What is known of this node's Node object from the API server, for those who only look.
ownnode           Reads this node's Node at the API server for its labels, writes Events on it, has its cards
                  published.
server            One gRPC server on one socket file, for any of the kubelet's services.
unitlocks         No hardware is served by two resources at once, nor by two processes.
"""
