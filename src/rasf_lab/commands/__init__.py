"""The laboratory's commands, which `rasf` finds by entry points."""
