"""What we think of what a target did."""
