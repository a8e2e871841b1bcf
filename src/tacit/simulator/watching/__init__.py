"""Those who watch a simulation while it goes on."""
