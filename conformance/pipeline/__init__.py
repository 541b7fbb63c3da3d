"""Campaigns and audits on Spark: the only folder that imports pyspark.

The first paragraph of a module's docstring names the packages that it needs ("Needs ..."). All other modules can be
imported without pyspark, pyarrow and numpy.
"""

import warnings

# Before the import of Spark, which warns about this version of pandas. All features that we use work with it.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
