"""Writes the Python code of a typed client from the definitions of a server. Pure; no definition is trusted."""

from gaia_bridge_desk.client_code.module import ServerOffer, client_class, client_module

__all__ = ["ServerOffer", "client_class", "client_module"]
