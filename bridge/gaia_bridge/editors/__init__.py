"""The configuration files with which editors find the bridge. Pure: nothing here reads or changes an editor's own."""
