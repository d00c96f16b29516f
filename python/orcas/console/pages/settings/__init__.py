"""The settings of a bucket: a page for each, with the document beside the form."""
