"""The commands of `rasf_lab`, which `rasf` finds by entry points."""
