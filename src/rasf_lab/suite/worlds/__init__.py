"""The environments of the suite, a file each with one `CASE`."""
