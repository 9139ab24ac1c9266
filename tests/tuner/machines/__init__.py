"""Tests of studies of machines."""
