"""Who proposes: adapters of `graph.ports.Planner`."""
