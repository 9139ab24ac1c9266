"""Vector maths: functions on one register of floats, as IR text or C."""
