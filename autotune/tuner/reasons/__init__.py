"""Why a plan is as it is: what fusing saves, what comes next, and what was not fused."""
