"""What commands draw for people.

cards       Draws cards: a line each, a mark for each tile, so that one sees how free tiles are scattered.
claims      Claims as people look at them.
output      The one way in which commands print for people.
plans       Draws plans as trees of the network with the pods where they sit.
pools       The devices of published pools as a table.
records     Lays records out in columns: values in, lines of text out.
slices      Slices as people look at them.
tables      Tables for people.
verdicts    What `accelet doctor` says to people.
"""
