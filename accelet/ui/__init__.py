"""`accelet ui`: a read-only page of a cluster, on loopback, for whoever has its one-time link.

It may import everything but the command line. What inside may import what stands in pyproject.toml.

access =     Who may see the page: one browser for each link, on this machine, asking for the page itself.
app          The page over HTTP: a link that lets a browser in, the files of the page, and its stream of
             changes.
painting     Makes a new picture whenever something has changed, and shows it to everybody who looks.
podevents    Asks the API server for the Events of one pod, when a browser wants to see them.
process      Everything that `accelet ui` runs: watches, pictures, and the server of the page.
server       An HTTP server on loopback that other users of the machine cannot exhaust.
subscribers  The browsers that look: each is told of changes, and one that does not keep up gets the whole
             anew.
watching     Watches everything that the page shows, as far as the person may see it and the cluster has it.
"""
