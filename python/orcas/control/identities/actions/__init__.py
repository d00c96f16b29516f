"""The actions of IAM: each is a function from a call to an answer, in the table of `registry`."""
