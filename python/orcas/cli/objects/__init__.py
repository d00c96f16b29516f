"""Commands for objects, in the words of `aws s3`."""
