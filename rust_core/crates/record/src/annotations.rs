//! The annotations of a version: named texts that change without the object. They are a part of its attributes, so they
//! go wherever a version goes, and one record replaces all of them.
//!
//! Invariants. The names ascend and none is empty. The text of each is one inline extent or one whole blob; a record that
//! has the annotation holds a reference to that blob, as a manifest does.

use std::sync::Arc;

use bytes::Bytes;

use super::extent::Extent;
use orcas_checksum::Checksum;

/// Most annotations of a version.
pub const ANNOTATIONS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// UTF-8, 1 to 512 bytes.
    pub name: Bytes,
    /// Milliseconds since the Unix epoch.
    pub modified_ms: u64,
    pub md5: [u8; 16],
    /// The checksum of the text.
    pub checksum: Option<Checksum>,
    /// Where the text is. Never a segment.
    pub text: Extent,
}

impl Annotation {
    /// Bytes of the text.
    pub fn size(&self) -> u64 {
        self.text.length()
    }
}

/// The annotations of a version in the order of their names. Most versions have none, which takes no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Option<Arc<[Annotation]>>);

impl Annotations {
    /// `None` if the names do not ascend, or if there are too many.
    pub fn from_sorted(list: Vec<Annotation>) -> Option<Self> {
        let ascend = list.windows(2).all(|pair| pair[0].name < pair[1].name);
        let named = list.first().is_none_or(|first| !first.name.is_empty());
        (ascend && named && list.len() <= ANNOTATIONS_MAX).then(|| Self::of(list))
    }

    fn of(list: Vec<Annotation>) -> Self {
        Self((!list.is_empty()).then(|| list.into()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn as_slice(&self) -> &[Annotation] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Where the texts are.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.as_slice().iter().map(|annotation| &annotation.text)
    }

    pub fn get(&self, name: &[u8]) -> Option<&Annotation> {
        self.position(name).ok().map(|at| &self.as_slice()[at])
    }

    /// The annotations with this one, in place of one of the same name. `None` if there are too many.
    pub fn with(&self, annotation: Annotation) -> Option<Self> {
        let mut list = self.as_slice().to_vec();
        match self.position(&annotation.name) {
            Ok(at) => list[at] = annotation,
            Err(_) if list.len() >= ANNOTATIONS_MAX => return None,
            Err(at) => list.insert(at, annotation),
        }
        Some(Self::of(list))
    }

    /// The annotations for which `keep` is true.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&Annotation) -> bool) -> Self {
        Self::of(self.as_slice().iter().filter(|annotation| keep(annotation)).cloned().collect())
    }

    /// These annotations, written at this time.
    #[must_use]
    pub fn copied_at(&self, modified_ms: u64) -> Self {
        Self::of(self.as_slice().iter().map(|annotation| Annotation { modified_ms, ..annotation.clone() }).collect())
    }

    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.as_slice().binary_search_by(|annotation| annotation.name[..].cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(name: &str) -> Annotation {
        let text = Extent::Inline(Bytes::from_static(b"text"));
        Annotation { name: name.to_owned().into(), modified_ms: 1, md5: [0; 16], checksum: None, text }
    }

    fn names(annotations: &Annotations) -> Vec<&[u8]> {
        annotations.as_slice().iter().map(|annotation| &annotation.name[..]).collect()
    }

    #[test]
    fn they_stay_in_order_and_each_name_is_there_once() {
        let mut annotations = Annotations::default();
        for name in ["b", "a", "c", "b"] {
            annotations = annotations.with(annotation(name)).unwrap();
        }
        assert_eq!(names(&annotations), [b"a", b"b", b"c"]);
        let newer = Annotation { modified_ms: 2, ..annotation("b") };
        annotations = annotations.with(newer.clone()).unwrap();
        assert_eq!((annotations.get(b"b"), annotations.get(b"d")), (Some(&newer), None));
        annotations = annotations.filtered(|annotation| annotation.name != "b");
        assert_eq!(names(&annotations), [b"a", b"c"]);
        assert_eq!(annotations.filtered(|_| false), Annotations::default());
    }

    #[test]
    fn their_number_is_limited_and_one_that_is_there_can_still_be_replaced() {
        let list = (0..ANNOTATIONS_MAX).map(|n| annotation(&format!("{n:04}"))).collect::<Vec<_>>();
        let full = Annotations::from_sorted(list.clone()).unwrap();
        assert_eq!(full.with(annotation("x")), None);
        assert_eq!(full.with(annotation("0007")).unwrap().as_slice().len(), ANNOTATIONS_MAX);
        assert_eq!(Annotations::from_sorted([list, vec![annotation("x")]].concat()), None);
    }

    #[test]
    fn a_list_out_of_order_is_refused() {
        assert_eq!(Annotations::from_sorted(vec![annotation("b"), annotation("a")]), None);
        assert_eq!(Annotations::from_sorted(vec![annotation("a"), annotation("a")]), None);
        assert_eq!(Annotations::from_sorted(vec![annotation("")]), None);
    }
}
