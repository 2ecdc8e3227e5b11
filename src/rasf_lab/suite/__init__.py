"""The suite: does risk-aware acting help on environments of other projects? `rasf suite`."""

from rasf_lab.suite.cases import Case, case_names, find_case

__all__ = ["Case", "case_names", "find_case"]
