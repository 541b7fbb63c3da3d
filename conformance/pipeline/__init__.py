"""Campaigns and audits on Spark: the only folder that imports pyspark.

A module that needs pyspark, pyarrow or numpy says so in the first paragraph of its docstring ("Needs ..."); all others
can be imported without them.
"""

import warnings

# Before Spark is imported: it warns about this version of pandas, with which all that is used here works.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
