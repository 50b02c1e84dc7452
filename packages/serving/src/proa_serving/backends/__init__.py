"""What runs a model file: the contract, the registry, and the engine of Proa."""
