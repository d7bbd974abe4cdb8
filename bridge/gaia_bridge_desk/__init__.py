"""Help for people: editors, bundles, projects, generated clients, registries, and checks of a machine."""
