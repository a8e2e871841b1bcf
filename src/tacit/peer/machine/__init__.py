"""The round machine of one agent: its functions, its rounds, its releases. No input or output."""
