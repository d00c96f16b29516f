"""The catalog of tables: Apache Iceberg's REST catalog and the API of S3 Tables, over the objects of a bucket.

Its modules are imported when it is first asked for, and `metadata`, `catalog` and what uses them need pyiceberg.
"""

from typing import Final

# Where Iceberg's REST catalog is served.
MOUNT: Final = "/_orcas/iceberg"
NEEDED: Final = "The catalog of tables needs the package pyiceberg: pip install 'orcas-s3[tables]'."
