"""The host CPU as a hardware spec: its identity and measured figures."""
