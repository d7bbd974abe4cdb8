"""The offer of a source, rewritten step by step: prefixed, filtered, renamed, with preset arguments."""
