"""The catalog of tables: Apache Iceberg's REST catalog, over the objects of a bucket.

Its modules are imported when it is first asked for, and `metadata`, `catalog` and `api` need pyiceberg.
"""

from typing import Final

# Where it is served.
MOUNT: Final = "/_orcas/iceberg"
NEEDED: Final = "The catalog of tables needs the package pyiceberg: pip install 'orcas-s3[tables]'."
