"""The paper: its experiments, figures and claims."""
