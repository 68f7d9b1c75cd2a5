"""ProvisioningRequests of our class: what a queue asks for a JobSet or Job before it lets it run."""
