"""What may be wrong with a node or a cluster, and how to mend it: looks, judges, and changes nothing.

It may import the processes and what is below them; it knows neither the page nor `accelet.overview`.

cluster/    One cluster: what of accelet runs in it, what that may do, its nodes, and the pods that wait.
node/       One node: its kubelet's folders, sockets and records, its agent, its configuration.
archive     Writes a support bundle: a tar archive that only its owner may read.
bundle =    What a support bundle holds: of everything that was seen the fields named here, and no other.
examined =  What was examined, as `--json` shows it.
findings =  What an examination says: verdicts, each with its findings, each of these with its cure.
rights =    What each part of accelet must be allowed to do, right by right; a test sees that deploy/ gives
            each.
server      Asks the API server what it alone can tell: what time it is, and who may do what.
"""
