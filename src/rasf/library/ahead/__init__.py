"""Looking ahead: policies that simulate h steps in a model before they score an action. Read `policies` first."""
