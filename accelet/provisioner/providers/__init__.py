"""Who makes pools: one small protocol, and one package for each provider."""
