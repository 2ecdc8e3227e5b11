"""Pictures of the explorer, as SVG text made from numbers alone."""
