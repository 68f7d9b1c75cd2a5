"""What commands draw for people.

cards       Draws cards: a line each, a mark for each tile, so that one sees how free tiles are scattered.
jsonforms   The JSON schema of what each command prints with --json.
output      The one way in which commands print for people.
plainforms  The forms of what commands print as plain mappings; tests hold the commands to them.
plans       Draws plans as trees of the network with the pods where they sit.
pools       The devices of published pools as a table.
records     Lays records out in columns: values in, lines of text out.
slices      Slices as people look at them.
tables      Tables for people.
verdicts    What `accelet doctor` says to people.
"""
