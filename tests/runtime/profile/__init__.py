"""Tests of the profile."""
