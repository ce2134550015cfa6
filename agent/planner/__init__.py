"""Who proposes: adapters of `ridgeline.graph.ports.Planner`."""
