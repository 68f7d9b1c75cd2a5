"""What is done next for one task, and what people are told of it: pure.

decide    The next step of one task.
edits     What follows for the Job of a task when its spec is edited.
ends      How an attempt ended, and what follows: another one, or the end of the task.
inplace   Ranks that started again in their pods, on their nodes and with their cards: `restart: InPlace`.
moving    What is done next of a task's Moves.
reasons   What people are told of a task: its phase, its conditions, and one sentence why.
refusals  What follows when the API server says no: for how long it is not asked again, and what is told of
          it.
said      What the Events of a Job and of a pod say: why pods are refused, wait, or do not start.
starting  Why the program of a rank does not run, as kube-scheduler, kubelet and runtime say it of the pod.
status    A task's status: the record of it, and what people are told.
view      What a decision about a task is made of, and what it comes to.
"""
