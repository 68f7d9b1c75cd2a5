"""GPU tasks: a program as so many ranks, carried out by one Indexed Job an attempt.

It may import the rows below; no other process. What inside may import what stands in pyproject.toml.

deciding/ =    What is done next for one task, and what people are told of it: pure.
objects/ =     The objects of a task: those that are read, as values, and those that are made, as JSON.
clusterdomain  The domain of the cluster's Services, as the pod of the controller is told it.
controller     Looks at tasks one at a time, and does the next step of each.
events         What is said of tasks in Events, for those who read `kubectl describe`.
metrics        What the task controller counts.
original =     GPUTasks of falldio.com/v1, the original's, as ours.
originals      Makes a GPUTask of accelet.dev of each of falldio.com/v1, and tells there how far it is.
process        The task controller's process: it watches always and carries tasks out while it leads.
setbacks       Why nothing was made of originals lately, so that who was refused takes no turns from the
               others.
settings       The task controller's settings file.
state =        What there is, as the watches tell it, and the view of it that one decision takes.
watching       Watches tasks and what is made for them, and keeps the state up with it.
writer         Writes to the API server what was decided; repeating any of it does no harm.
"""
