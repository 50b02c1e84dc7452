"""The Open Inference Protocol: messages, datatypes, and both of its codecs."""
