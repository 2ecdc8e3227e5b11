"""Policies of a library held as networks: trained, frozen, stored, scored."""
