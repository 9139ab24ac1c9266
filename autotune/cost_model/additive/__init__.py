"""The cost model of machines that nobody described: a group costs the sum of its operators in their places."""
