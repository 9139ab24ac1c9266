"""Running a network on several devices: who runs what, when, and what happens when one fails."""
