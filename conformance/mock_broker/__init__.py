"""The mock broker that serves live clients."""
