"""The gRPC front end."""
