"""Mirror descent on any geometry, with long-term constraints and members that come and go."""
