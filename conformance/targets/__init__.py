"""Targets: what they are called, how they are started, the protocol they speak, and the reference among them."""
