//! What the layers of a bucket with versioning show together.
//!
//! The history of a key goes on in the layers below. In each layer it ends with the oldest version that the layer has. An
//! amendment says what became of one version that a layer below it has: it is gone, or it has other attributes, and
//! keeps its place. A null version replaces that of the layers below. In a layer from before versioning, a key has one
//! version or a delete marker, and nothing below it counts.

use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_record::{BucketId, LayerKind, Object, Sequence, VersionId};

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
                Some(amended) => return Ok(amendment::<L>(amended)),
                None => None,
            },
            (LayerKind::History, _) => state.version(*layer, key, id)?,
            (LayerKind::Single, VersionId::Null) => match state.newest(*layer, key, Sequence::MAX)? {
                Some(only) => return Ok(amendment::<L>(only)),
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
                let mut before = Sequence::MAX;
                while let Some(found) = state.newest(*layer, key, before)? {
                    before = L::object(&found).sequence;
                    let shown = shown_below(state, &layers[..at], key, found)?;
                    if shown.is_some() {
                        return Ok(shown);
                    }
                }
            }
            LayerKind::Single => {
                if let Some(only) = state.newest(*layer, key, Sequence::MAX)? {
                    return match amendment::<L>(only) {
                        Some(only) => shown_below(state, &layers[..at], key, only),
                        None => Ok(None),
                    };
                }
            }
        }
    }
    Ok(None)
}

/// A version that the layer right below `above` has, as these layers show it; `None` if they hide it.
///
/// # Errors
/// When the state cannot be read.
pub fn shown_below<L: Layers + ?Sized>(
    state: &L,
    above: &[BucketId],
    key: &[u8],
    found: L::Found,
) -> Result<Option<L::Found>> {
    let id = L::object(&found).version.version_id;
    for layer in above {
        match state.kind(*layer) {
            LayerKind::Amendments if planted::is(Bug::AmendmentsIgnored) => {}
            LayerKind::Amendments => {
                if let Some(amended) = state.version(*layer, key, id)? {
                    return Ok(amendment::<L>(amended));
                }
            }
            // A version with a name is in one layer.
            LayerKind::History if id != VersionId::Null => {}
            LayerKind::History => {
                if state.version(*layer, key, id)?.is_some() {
                    return Ok(None);
                }
            }
            LayerKind::Single => {
                if state.newest(*layer, key, Sequence::MAX)?.is_some() {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(found))
}

/// A delete marker among amendments, or in a layer from before versioning, is not one that clients see.
fn amendment<L: Layers + ?Sized>(found: L::Found) -> Option<L::Found> {
    Some(found).filter(|found| !L::object(found).version.delete_marker)
}
