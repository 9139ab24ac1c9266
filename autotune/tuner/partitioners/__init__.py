"""Hill climbing over partitions, by costs of groups."""
