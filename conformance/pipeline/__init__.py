"""Campaigns and log audits on Spark: the only folder that imports pyspark."""

import warnings

# Before Spark is imported: it warns of a pandas on which all that is used here works.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
