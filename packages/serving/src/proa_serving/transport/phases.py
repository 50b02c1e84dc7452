"""What a connection waits for, which says how long it may."""

NEW = "new"  # the first byte
IDLE = "idle"  # the next request
HEAD = "head"
BODY = "body"
BUSY = "busy"  # the answer
BLOCKED = "blocked"  # the client, to read
LINGER = "linger"  # the client, to close
