"""A cluster as people look at it, for commands and for the page of `accelet ui`: values and no I/O.

It may import the processes and what is below them; it knows neither the page nor `accelet.doctor`.

bounds        How much of what others write is shown: every text, list and map of a picture has an end.
changes       What has changed between two pictures, and how it is told to a browser.
claimedcards  Cards that are served through DRA, and what claims hold of them, beside those the scheduler
              counts.
nodes         Nodes as they are shown: their cards, what else they offer, and which pods have it.
picture       What the page shows, as values: each part under a key, so that changes can be told part by part.
podevents     What Events say of one pod, as the page shows them.
seen          What has been seen of a cluster so far, kept up with events, and the picture of it.
waiting       Who has no place yet, and why; and the plans that are being carried out.
wishes        Slices of TPUs and GPU tasks, as their commands show them.
"""
