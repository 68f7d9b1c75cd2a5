"""`accelet task`: what people do with GPU tasks.

asking    What every `accelet task` command is told, and how it asks the cluster.
cluster   What is asked of a cluster for `accelet task`.
drawing   Tasks as people look at them.
group     `accelet task`: submit, show, explain, hold and delete GPU tasks.
lines     Lines out of what programs write, bounded: values in, values out.
logs      What the ranks of a task wrote: read rank after rank, or followed while they run.
making    GPUTasks out of flags, and what of a manifest nobody would read.
move      `accelet task move`: ask for a running task to go elsewhere, or allow it, and tell what becomes of
          that.
queueing  What Kueue says of a task's Job that it holds: values in, one sentence out.
"""
