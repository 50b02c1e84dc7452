"""Programs as models of other formats: what their exporters share."""
