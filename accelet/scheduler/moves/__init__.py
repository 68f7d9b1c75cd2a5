"""Moves of running tasks: what they would be good for, and the places that are held for them: pure.

finding/ =   Which moves would help, proven by the planner: pure.
book =       The Moves and tasks that there are, and the places that are held for them in the scheduler's
             account.
budgets =    Which tasks may be moved now: how often, and how soon again.
holding =    The places that are held for moves, and what the scheduler writes of a move: pure.
improver     Looks for better places for running tasks while nobody waits, in turn and not for long.
lasting =    Whether what a Move was proposed for is still to be gained: pure.
movable =    Running tasks as the planner looks at them when they are to be elsewhere.
mover        The scheduler's part of Moves: holds places, withdraws what is no good any more, places who
             arrives.
moving       Moves of running tasks as the planner's rounds see them.
proposer     Looks for moves that help somebody, not too often and not for long, and proposes them.
proposing =  Which moves the scheduler proposes: pure.
tasks =      What the scheduler reads of GPUTasks: whether, how often and where to they may be moved.
watching     Watches Moves and GPUTasks, where the cluster has these kinds.
writer       Writes Moves: proposals, and the scheduler's part of their status.
"""
