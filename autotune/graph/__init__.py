"""The network: tensors, operators, import, passes and reference semantics."""
