"""What everything else stands on: dtypes, devices, flags, random streams."""
