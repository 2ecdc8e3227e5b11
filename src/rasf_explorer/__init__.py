"""The risk explorer: a local web page that shows how a library acts for any task and risk, and why."""
