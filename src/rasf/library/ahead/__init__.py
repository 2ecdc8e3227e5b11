"""Looking ahead: policies that simulate h steps in a model before they score an action. Read `policies` first."""

PARTICLES = 8  # default number of simulated paths for each policy and action
