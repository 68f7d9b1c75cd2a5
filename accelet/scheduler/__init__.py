"""The topology-aware gang scheduler.

It may import the rows below; no other process. A plan is written down before a gate is lifted. What inside
may import what stands in pyproject.toml.

admission/    What Kueue asks before it lets a job run: whether there is a place for all of its pods.
cards/        Cards and tiles within one node.
claims/ =     Which devices kube-scheduler would give to the claims of a pod.
cluster/ =    What there is: nodes, where they are, and what is free on them.
gangs/ =      Who wants to go where.
moves/        Moves of running tasks: what they would be good for, and the places that are held for them:
              pure.
placement/ =  Which nodes a gang gets.
preemption/   Which gangs are evicted for one of a higher priority, and how that is done.
volumes/      Volumes of pods, as far as the scheduler keeps up with them.
budget        How much work one gang's plan may take: counted, not timed, so that a plan can be repeated
              anywhere.
controller    Carries plans out, and has gangs planned that have none; driven by events.
errors =      What can go wrong with a gang; each text is a sentence for people.
events        Says as Events what becomes of gangs.
metrics       What the scheduler counts.
notes         Writes on the first pod of each gang that waits why it does, not too often.
planning      Plans gangs in rounds, beside the event loop, and has each plan written down as soon as it is
              made.
process       The scheduler's process: watches always, places gangs while it leads.
record =      A gang's plan as it is written down before anything is done: one ConfigMap.
release =     What is to be done next of a gang's plan, which only ever rolls forward.
remaking      Frees released pods that cannot be on their node, and has gangs placed anew whose pods stay
              refused.
remedy        What is to be done for a released pod that cannot be on the node that it was released to.
settings      The scheduler's settings file.
state =       What the scheduler knows of the cluster: kept up with events, asked when there is something to
              decide.
watching      Watches everything the scheduler looks at, and keeps the state up with it.
writer        Writes plans down and carries them out; repeating any of it does no harm.
"""
