"""The implementation of `gaia_bridge.testing`, and the plugin of pytest, which every run of pytest loads."""
