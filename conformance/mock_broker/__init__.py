"""The mock broker, which serves live clients."""
