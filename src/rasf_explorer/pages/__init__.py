"""The explorer's pages: controls and panels around the pictures of a scene (NiceGUI)."""
