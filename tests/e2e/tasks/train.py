"""Trains a line by several processes over gloo, and goes on from its last checkpoint. Runs below torchrun.

Arguments: a folder that all processes share. Writes a line to `runs` for each start, and ends once the file
`finish` is there.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch  # type: ignore[import-not-found]  # it is not where the tests run
import torch.distributed as dist  # type: ignore[import-not-found]

folder = Path(sys.argv[1])
checkpoint = folder / "checkpoint.pt"


def say(**told: object) -> None:
    with (folder / "runs").open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), **told}) + "\n")


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
saved = torch.load(checkpoint) if checkpoint.exists() else {"step": 0, "weight": torch.zeros(1)}
step, weight = saved["step"], saved["weight"]
# Whoever read another checkpoint than rank 0 takes its.
state = torch.cat([torch.tensor([float(step)]), weight])
dist.broadcast(state, 0)
step, weight = int(state[0]), state[1:]
say(
    event="start",
    rank=rank,
    world=world,
    local=int(os.environ["LOCAL_RANK"]),
    node=int(os.environ["GROUP_RANK"]),
    run=os.environ["TORCHELASTIC_RUN_ID"],
    step=step,
)
while True:
    x = torch.rand(8)
    gradient = (2 * (weight * x - 3 * x) * x).mean().reshape(1)
    dist.all_reduce(gradient)
    weight = weight - 0.1 * gradient / world
    step += 1
    is_last = torch.tensor([1.0 if (folder / "finish").exists() else 0.0])
    dist.broadcast(is_last, 0)
    if rank == 0:
        torch.save({"step": step, "weight": weight}, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)
    if is_last.item():
        break
    time.sleep(0.1)
say(event="end", rank=rank, world=world, step=step, weight=weight.item())
dist.destroy_process_group()
