"""The base layer: dtypes, devices, flags, random streams."""
