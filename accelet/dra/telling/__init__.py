"""What the holders of claims are told of their devices: Events, and conditions in the status of the claim.

claimconditions  Writes into the status of claims what is ill of what they hold, and what is well again.
claimevents      Events on claims whose devices fall ill while they are held, and on what is well again.
"""
