"""The language between scheduler and agent: cards and tiles on pods and nodes, as values. No I/O.

It may import `accelet.kube` and the rows below.

annotations  Which of a pod's annotations say its assignment.
assignment   The cards and tiles that a scheduler wrote on a pod, as values.
cardsschema  The JSON schema of the annotation accelet.dev/cards, made from the types that read it.
gas          The annotations of GPU Aware Scheduling, `gas-*`, to an assignment and back.
gaslabels    A node's cards in the labels that GPU Aware Scheduling reads, as a feature file of Node Feature
             Discovery.
nodecards    A node's cards as its agent publishes them for schedulers: the Node's annotation
             `accelet.dev/cards`.
ownform      Our own annotation for an assignment, `accelet.dev/assignment`: JSON by container name and
             resource.
"""
