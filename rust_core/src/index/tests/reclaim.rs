//! What reclamation does to the rows, record by record.

use super::*;
