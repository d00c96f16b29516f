//! A file of the chain that has a successor, so that its end is known.

use orcas_base::error::Result;

use crate::encoding::Header;
use crate::scan::Scanner;
use crate::{LogPosition, RecoveredBatch};

/// A file of the chain that has a successor.
#[derive(Clone, Debug)]
pub struct Link {
    pub header: Header,
    /// The position at which the next file begins.
    pub end: LogPosition,
}

impl Link {
    /// Visits the batches from the position of the scanner to the end of the file. All were durable before the file was
    /// closed. The position of the last batch of a compacted file is the end of its run.
    pub fn replay(&self, scanner: &mut Scanner, visit: &mut dyn FnMut(RecoveredBatch) -> Result<()>) -> Result<()> {
        while scanner.position().offset < self.bytes() {
            let Some(mut scanned) = scanner.next()? else {
                return Err(scanner.corrupt("the chain breaks in a file that has a successor"));
            };
            let end = scanned.batch.position.offset;
            if end > self.bytes() || end == self.bytes() && !self.ends_at(scanner.position()) {
                break;
            }
            if end == self.bytes() {
                scanned.batch.position = self.end.clone();
            }
            visit(scanned.batch)?;
        }
        if self.ends_at(scanner.position()) {
            return Ok(());
        }
        Err(scanner.corrupt("the file does not end where its successor says"))
    }

    /// Bytes of the file up to the end of its last batch.
    pub fn bytes(&self) -> u64 {
        match &self.header {
            Header::Plain(_) => self.end.offset,
            Header::Compacted(header) => header.own_end,
        }
    }

    fn ends_at(&self, place: &LogPosition) -> bool {
        match &self.header {
            Header::Plain(_) => *place == self.end,
            Header::Compacted(header) => {
                (place.offset, place.chain) == (header.own_end, header.own_chain) && place.sequence <= self.end.sequence
            }
        }
    }
}
