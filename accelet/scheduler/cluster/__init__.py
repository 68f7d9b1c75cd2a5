"""What there is: nodes, where they are, and what is free on them."""
