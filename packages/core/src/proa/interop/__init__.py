"""Files and objects of other frameworks."""
