"""What `gaia_bridge.testing` offers, and the plugin of pytest, which is loaded by every run of it."""
