"""Commands below commands: `accelet slices forget`, `accelet demo provisioner`.

claims            `accelet claims`: who holds which DRA devices, and where claims that wait would get theirs.
demo_dra          `accelet demo dra`: claims served on a simulated node, without cluster or root.
demo_provisioner  `accelet demo provisioner`: slices for a JobSet, from simulated machines, without cluster or
                  root.
demo_tasks        `accelet demo tasks`: a task that waits, and the move of another that lets it in, without a
                  cluster.
gated             `accelet gated`: the pods that wait at a gate of ours, and what becomes of them when accelet
                  goes.
provisioner_run   A JobSet, the provisioner and an API server in this process: what `accelet demo provisioner`
                  shows.
slices_forget     `accelet slices forget`: lets go of a slice whose provider does not answer.
task_controller   `accelet task-controller`: carries out GPUTasks.
ui                `accelet ui`: a read-only page of the cluster, served on loopback.
unprepare         `accelet unprepare`: frees what a node holds for a claim that nothing unprepares.
"""
