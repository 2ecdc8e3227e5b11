"""The risk explorer: a local page on which a person turns the dial and sees what a library does, and why."""
