"""The explorer's pages: controls and panels around a scene's pictures (NiceGUI)."""
