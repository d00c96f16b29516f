package orcas;

import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests;

/** The tests of tables, with locations in the bucket of the warehouse where theirs are below file:/tmp. */
public class InWarehouse extends RESTCompatibilityKitCatalogTests {
  @Override
  protected String baseTableLocation(TableIdentifier table) {
    return "s3://lake/given/" + table.toString().replace('.', '/');
  }
}
