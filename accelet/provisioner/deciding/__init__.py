"""What is done next for one slice: pure, from what is written down and what is there.

adopting  A pool that the original tpu-provisioner made for the same Job is taken over, where the settings say
          so.
attempts  Which attempt is next, for a slice and its set.
decide    The next step of one slice.
findings  What is noted of a slice, and changes nothing about it.
losing    When a pool counts as lost: what one list of the provider says of it may be gone with the next.
offers    What parked slices are to other requests: machines that are there already, or room that they take.
parking   A slice that nobody wants any more is put aside for a while, and given to one request at most.
places    How many slices a set has and will have, kept up with each change of one of them.
ranked    Numbers in order, of which each may be there several times.
retire    How a pool is deleted: its nodes closed, looked at again, and only then.
room      Whether the limits leave room for one more slice, or for the whole of a set.
unused    Slices that are ready and that nobody uses: told after a while, and given back if the settings say
          so.
view      What a decision is made of: the record, the pools, the nodes, the rest of the set.
"""
