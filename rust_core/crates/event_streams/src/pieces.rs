//! The pieces of streams that were made last, for listeners that are at the same place and want the same.
//!
//! A thousand listeners usually follow the same changes, so most of them send bytes that another one has made. A piece
//! stays true whatever comes later, so pieces are only ever dropped for room.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use orcas_engine::Place;
use orcas_events::Filter;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFormat {
    /// Server-sent events.
    Sse,
    /// Messages as lines, as MinIO sends them: the names of events begin with `s3:`.
    Lines,
}

/// Number of formats.
pub(super) const FORMATS: usize = StreamFormat::Lines as usize + 1;

/// Listeners that follow in step need a few. A piece has about `BYTES_AT_ONCE`.
const PIECES_MAX: usize = 64;

/// Everything that a filter wants between two places.
#[derive(Clone)]
pub(super) struct Piece {
    pub from: Place,
    pub to: Place,
    pub format: StreamFormat,
    pub filter: Arc<Filter>,
    pub bytes: Bytes,
}

#[derive(Default)]
pub(super) struct Pieces {
    /// The last one is the newest.
    kept: Mutex<VecDeque<Piece>>,
}

impl Pieces {
    /// The bytes behind `from`, and up to where they go.
    pub fn find(&self, from: Place, format: StreamFormat, filter: &Arc<Filter>) -> Option<(Bytes, Place)> {
        let wanted = |piece: &&Piece| {
            piece.from == from
                && piece.format == format
                && (Arc::ptr_eq(&piece.filter, filter) || piece.filter == *filter)
        };
        self.kept.lock().iter().rev().find(wanted).map(|piece| (piece.bytes.clone(), piece.to))
    }

    pub fn keep(&self, piece: Piece) {
        let mut kept = self.kept.lock();
        if kept.len() == PIECES_MAX {
            kept.pop_front();
        }
        kept.push_back(piece);
    }
}
