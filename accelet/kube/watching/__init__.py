"""Live copies of the API server's objects.

comparing    Asks who is there, and in which version, so that only what has changed need be read whole.
pace =       What a reflector does next, and when: decisions without clock, chance or I/O of their own.
position     How far a watch has come, for those who wait until it has.
reflector    A live copy of one resource: list, watch, and again.
reliance     Whether the admission policies are in force on which it rests that what is written can be
             believed.
silence      How long nothing has been heard from the API server, and when that is too long.
source =     Which objects are wanted, and what gives lists and watches of them.
store =      What a reflector knows: the objects of one resource, and what changed.
watchrecord  Where a watch was, and what it showed to be deleted lately, in a file for the next process.
"""
