"""The pool of machines that a slice is: how many, of which type, where, and by which name.

Pure: values in, values out.

machines  Which machines a slice takes: the rules of the accelerators' table, as decisions with a reason.
plan      One pool as it is to be made: what every provider makes its own request of.
pool      A pool as its provider tells of it, and what can become of a request to make or delete one.
tiers     In which order a slice is tried: tiers of price and capacity, times zones.
"""
