"""The API server, for everybody: objects, requests, watches, work queue, lease, events.

Rule: no hardware, no policy. `connection` alone imports the kubernetes package, `client` alone that.

It may import `accelet.runtime` alone of this project. What inside may import what stands in pyproject.toml.

recording/    Kubernetes Events.
watching/     Live copies of the API server's objects.
writing/ =    What is written of objects: conditions, owners, finalizers.
answers =     The API server's answers that are errors, as errors of ours.
apiresources  What is asked of the API server: kinds of objects, and where it has them.
barepod =     What is to be known of a pod that cannot be read whole, or is not kept whole.
client        Requests to the API server from asyncio: raw JSON in and out, errors as exceptions.
connection    The `kubernetes` package at work: configuration, credentials, TLS, and one blocking request at a
              time.
errors =      What can go wrong between us and the API server.
kubeconfig    Kubeconfig files as kubectl reads them: which ones, and what several of them say together.
nodes =       A Node, as far as anybody here needs it.
objects =     What all API objects have in common, and how raw JSON becomes a value or one clear error.
podparser =   Raw pods to values.
pods =        A Pod, as far as anybody here needs it.
poduid =      Which pod is meant: the UID by which a kubelet knows it, and whether its name may come again.
quantity =    Kubernetes quantities, exactly.
requests =    How much of a node a pod takes, as kube-scheduler counts it.
selection =   What pods say about nodes and other pods, and nodes about pods: selectors, taints, tolerations.
served        Whether a cluster knows a kind: nobody may have installed it, or in another version.
"""
