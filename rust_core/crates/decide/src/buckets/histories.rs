//! What the layers of a bucket with versioning show together.
//!
//! The history of a key goes on in the layers below. In each layer it ends with the oldest version that the layer has. An
//! amendment says what became of one version that a layer below it has: it is gone, or it has other attributes, and
//! keeps its place. A null version replaces that of the layers below. In a layer from before versioning, a key has one
//! version or a delete marker, and nothing below it counts.

use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_record::{BucketId, LayerKind, Object, Sequence, VersionId};

/// Removed versions of a layer after which others are passed over together: a few lookups cost less than a scan.
const STEPS_MAX: usize = 2;

/// Reads single layers.
pub trait Layers {
    /// An object as it was found.
    type Found;

    fn object(found: &Self::Found) -> &Object;
    fn kind(&self, layer: BucketId) -> LayerKind;
    /// The version with this id in a layer, also a delete marker.
    ///
    /// # Errors
    /// When the state cannot be read.
    fn version(&self, layer: BucketId, key: &[u8], id: VersionId) -> Result<Option<Self::Found>>;
    /// The newest version of a key in a layer with a lower sequence than `before`, also a delete marker.
    ///
    /// # Errors
    /// When the state cannot be read.
    fn newest(&self, layer: BucketId, key: &[u8], before: Sequence) -> Result<Option<Self::Found>>;
    /// Passes over versions of a key in a layer that the layers `above` hide, from a hidden one on: the sequence of a
    /// version at which nothing but hidden ones was passed. By default, that is the one with the sequence `hidden`.
    ///
    /// # Errors
    /// When the state cannot be read, or there are too many for this decision.
    fn pass_hidden(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Sequence> {
        let _ = (above, layer, key);
        Ok(hidden)
    }
}

/// The version with this id that `layers` show, also a delete marker.
///
/// # Errors
/// When the state cannot be read.
pub fn find_version<L: Layers + ?Sized>(
    state: &L,
    layers: &[BucketId],
    key: &[u8],
    id: VersionId,
) -> Result<Option<L::Found>> {
    for layer in layers {
        let found = match (state.kind(*layer), id) {
            (LayerKind::Amendments, _) => match state.version(*layer, key, id)? {
                Some(amended) => return Ok(visible::<L>(amended)),
                None => None,
            },
            (LayerKind::History, _) => state.version(*layer, key, id)?,
            (LayerKind::Single, VersionId::Null) => match state.newest(*layer, key, Sequence::MAX)? {
                Some(only) => return Ok(visible::<L>(only)),
                None => None,
            },
            // Versions with names came later.
            (LayerKind::Single, VersionId::Named(_)) => return Ok(None),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The newest version of a key that `layers` show, also a delete marker.
///
/// # Errors
/// When the state cannot be read.
pub fn find_newest<L: Layers + ?Sized>(state: &L, layers: &[BucketId], key: &[u8]) -> Result<Option<L::Found>> {
    for (at, layer) in layers.iter().enumerate() {
        match state.kind(*layer) {
            LayerKind::Amendments => {}
            LayerKind::History => {
                let (mut before, mut steps) = (Sequence::MAX, 0);
                while let Some(found) = state.newest(*layer, key, before)? {
                    let hidden = L::object(&found).sequence;
                    let shown = amended(state, &layers[..at], key, found)?;
                    if shown.is_some() {
                        return Ok(shown);
                    }
                    steps += 1;
                    before = match steps {
                        ..STEPS_MAX => hidden,
                        _ => state.pass_hidden(&layers[..at], *layer, key, hidden)?,
                    };
                }
            }
            LayerKind::Single => {
                if let Some(only) = state.newest(*layer, key, Sequence::MAX)? {
                    return match visible::<L>(only) {
                        Some(only) => amended(state, &layers[..at], key, only),
                        None => Ok(None),
                    };
                }
            }
        }
    }
    Ok(None)
}

/// A version of a layer below `above`, as amendments there leave it; `None` if it is gone. Nothing else hides it from who
/// has found nothing above: what removed a null version there removed all of that key below.
fn amended<L: Layers + ?Sized>(state: &L, above: &[BucketId], key: &[u8], found: L::Found) -> Result<Option<L::Found>> {
    let id = L::object(&found).version.version_id;
    let is_asked = |layer: &&BucketId| state.kind(**layer) == LayerKind::Amendments;
    for layer in above.iter().filter(|_| !planted::is(Bug::AmendmentsIgnored)).filter(is_asked) {
        if let Some(amended) = state.version(*layer, key, id)? {
            return Ok(visible::<L>(amended));
        }
    }
    Ok(Some(found))
}

/// A delete marker among amendments, or in a layer from before versioning, is not one that clients see.
fn visible<L: Layers + ?Sized>(found: L::Found) -> Option<L::Found> {
    Some(found).filter(|found| !L::object(found).version.delete_marker)
}
