"""The source of cases: vector files, pairwise sets, and the catalogue built from them."""
