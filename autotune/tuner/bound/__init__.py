"""Lower bounds of cycles: what no schedule of a group, and no plan of a network, can undercut."""
