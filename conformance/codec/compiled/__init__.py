"""Readers and writers generated from the layouts; only `codec.dispatch` imports them."""
