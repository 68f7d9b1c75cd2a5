"""The pods of this node, as the API server has them and lately had them.

former =   The pods that the API server had until lately; the kubelet may still show or be admitting them.
gap =      What is not known of a node's pods after a watch that began anew.
known      What the watch and lists of this node's pods have told so far.
nodepods   Watches this node's pods at the API server, reads single ones, and writes Events on them.
nodeuid    Which Node this is, by which the mirrors of its static pods are known.
reading    Reads of pods during a call of the kubelet: each has a deadline, and after one that failed nobody
           waits.
remains =  What is kept of a pod that is gone: who it was, how far it came, what it was to get.
view =     What is known of this node's pods from the API server, for those who only look.
"""
