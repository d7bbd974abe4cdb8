"""Further ways to an agent, and to servers: doors that the bridge opens when they are used."""
