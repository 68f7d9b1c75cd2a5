"""ProvisioningRequests of our class: what a queue asks for a JobSet or Job before it lets it run.

book     The bookings there are, and for which JobSet or Job each is.
booking  A ProvisioningRequest as a value, and the status that is written of it.
demand   The slices of a booking: those of its JobSet or Job, with what the queue has added to the pods.
judging  What is said of a booking: pure, from its slices.
keeper   Has the slices of bookings made, and says on each what becomes of it.
reading  Reads what a booking refers to: the queue's Workload, and the PodTemplates of its pods.
"""
