"""What the host's Container Device Interface specifications offer.

specs  Which devices the CDI specifications on a host have, and of which device nodes each consists.
"""
