"""HTTP/2 as far as gRPC needs it: frames, header compression, streams."""
