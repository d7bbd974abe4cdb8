"""What a source offers, rewritten step by step: prefixed, filtered, renamed, with preset arguments."""
