"""Campaigns and log audits on Spark: the only folder that imports pyspark."""
