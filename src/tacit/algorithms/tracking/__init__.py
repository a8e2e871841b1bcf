"""Methods that correct for the differences between agents, so that constant steps reach the common optimum."""
