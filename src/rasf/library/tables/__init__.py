"""Policies of a library held as tables: trained, frozen, stored, scored."""
