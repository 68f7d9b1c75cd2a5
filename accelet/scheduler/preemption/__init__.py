"""Which gangs are evicted for one of a higher priority, and how that is done.

evicting    Has the pods that a plan needs gone evicted, and gives the plan up where they do not go in time.
offline =   What would be evicted for gangs that have no place, as `accelet plan --preempt` tells it.
preempting  Looks for gangs to be evicted when one of higher priority has no place: not too often, not for
            long.
search =    Which gangs of lower priority are evicted so that one gets in: the lowest, then the fewest.
victims =   Which gangs may be evicted, and for which.
"""
