"""Cards and tiles within one node.

account =    Who holds what of which node's cards: an account kept up with events.
catalog      What is known of kinds of nodes with cards: numbers for them, and how many pods fit.
choice =     Cards and tiles for pods on one node: an exact search for who gets what.
items =      What pods ask of cards, cut into items that are each given cards at once.
labels =     What administrators and telemetry say of a node's cards in labels, in the words of GPU Aware
             Scheduling.
lingering =  Pods deleted by force whose cards may still be in use: only who saw them go knows of them.
needs =      What a pod asks of cards: how many, and how much of each; the words are those of GPU Aware
             Scheduling.
never =      Why no node of a cluster ever takes a pod that asks for cards, in words.
reasons =    Why cards do not take a pod, in words that follow a number of nodes.
search =     The depth-first search for cards; choices between cards that do not differ are tried once.
state =      One card and what is left of it.
view =       Every card and tile of a cluster as people look at them: who holds it, what is free, what is
             wrong.
"""
