"""Training beyond one process; at present what helps in one as well."""
