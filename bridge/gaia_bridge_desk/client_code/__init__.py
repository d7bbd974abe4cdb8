"""Python code of a typed client, made of what a server says that it offers. Pure; nothing of it is trusted."""

from gaia_bridge_desk.client_code.module import Offer, client_class, client_module

__all__ = ["Offer", "client_class", "client_module"]
