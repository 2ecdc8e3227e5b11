"""The suite: benchmark environments, mostly of other projects, to test whether risk-aware acting helps."""

from rasf_lab.suite.cases import Case, case_names, find_case

__all__ = ["Case", "case_names", "find_case"]
