"""Pictures of the explorer: functions from numbers to SVG text."""
