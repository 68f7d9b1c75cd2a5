"""The objects of a task: those that are read, as values, and those that are made, as JSON.

Pure: values in, values out.

jobs       Jobs and Services of tasks, as the API server has them.
launchers  What launchers of several processes read in a rank's environment: torchrun, and torch.distributed.
manifests  The objects that are made for a task, and the patches that change them.
names      What is written on the objects of a task, and what others write there.
overlay    A task's `template`, laid over the pods that are made for it: what is merged, and what is refused.
pods       Pods of tasks, as far as their task is concerned.
ranks      Sets of ranks as people and Jobs write them: `0-3,7`.
task       GPUTasks as the API server has them.
template   The pod template of a task's Job.
"""
