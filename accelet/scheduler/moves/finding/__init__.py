"""Which moves would help, proven by the planner: pure.

gains       By counting alone: which tasks, once gone, can leave room for a waiting gang whose pods are alike.
letsin      LetsIn: which running tasks have to move, and where to, so that a waiting gang gets in.
nearer      Nearer: places at which the ranks of a running task are nearer to each other.
options     Sets of tasks put together until they make room enough, those of the fewest ranks first.
packs       Packs: places at which a running task leaves whole nodes or whole cards free.
relocating  Drain and Person: another place for a task that somebody wants elsewhere.
together    Which tasks may move at once, whatever it is for: what is never worth it, or has not places
            enough.
"""
