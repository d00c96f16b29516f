"""The configuration documents of a bucket as fields of a form, in both directions. Pure: knows no requests and no pages."""
