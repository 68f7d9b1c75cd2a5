"""Which devices a container is given.

Pure: values in, values out.

advice      What helps a container to which the kubelet would give other devices than those it is assigned.
closeness   Which of the free devices are closest to each other: a GPU's partitions, GPUs of one switch.
conflicts   Whether a container is to be given what a live pod beside it has, which two cannot have at a time.
following   One request whose container is known, or is not, against its assignment and the policies.
policies    What to do where an assignment cannot simply be followed.
preference  Which of the free devices a container had best get.
steering    Which free devices a container had best get where assignments are followed.
"""
