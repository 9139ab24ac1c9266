"""The profile of a runtime: what ran how often at which cost, and the status that shows it."""
