"""Requests summed up and looked up without going over all of them: kept up with each change of one.

Pure: values in, values out.

grouped  Requests by something that several of them may have in common.
jobs     Which requests are for which Job, and which Jobs two owners make.
parked   Who has put a slice aside, who asks for it, and who holds a pool that was another's.
sets     The slices of each set together, kept up with each change of one of them.
sums     The sums over the slices of one set.
"""
