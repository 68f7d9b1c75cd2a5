"""Google TPUs: chips found on the PCI bus, given as whole hosts or as boxes of neighbouring chips.

scanning/       What a node's files say of its TPUs.
backend         The back-end `tpu`: what its settings make of the chips that a scan found.
boxes =         Which chips of a host one process can use together, and which of them to hand out first.
chips =         Chips made of PCI functions: which functions are chips, and which belong to one.
controlservice  The host's service that libtpu asks before it starts, from v6e on: where it is, and whether it
                is there.
environment =   The environment that JAX, PyTorch/XLA and libtpu read in a container with TPU chips.
generation =    What a generation of TPU is described by.
host            A host's chips in their places, and which sets of them can be used together.
hostslice =     What kind of host the chips are, and of which slice: what is said of it, held against what is
                there.
refusal =       What a user reads when chips cannot be given: what is wrong, and what to ask for.
seenhost        The most chips that a host was seen with: chips that vanish must not make a smaller host of
                it.
settings =      How an administrator wants TPU chips to be served.
shape =         The shape of a box of TPU chips: chips along x, y and z.
statements =    What the settings, the TPU VM and the Node's labels say of a host, none of it checked yet.
table =         What is known of every TPU generation, as data.
"""
