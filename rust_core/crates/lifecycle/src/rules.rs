//! What rules say, and which of them may concern a version.
//!
//! A bucket may have a thousand rules, and every GET asks them. So they are found by the key and the tags of a version, and
//! those that cannot concern it cost nothing.

/// The rules of one bucket.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Rules in the order of the document.
    rules: Vec<Rule>,
    /// Enabled rules by their prefixes, in ascending order.
    by_prefix: Vec<OfPrefix>,
    /// Keys and values of tags, in ascending order, and enabled rules that ask for them. A rule is here once, with the tag
    /// that the fewest rules ask for.
    by_tag: Vec<(Tag, usize)>,
}

/// Key and value.
pub type Tag = (Vec<u8>, Vec<u8>);

/// The rules of one prefix, as places in the document.
#[derive(Clone, Debug)]
struct OfPrefix {
    prefix: Vec<u8>,
    /// Where the longest other prefix is that this one begins with.
    shorter: Option<usize>,
    untagged: Vec<usize>,
    tagged: Vec<usize>,
}

impl Rules {
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut tags: Vec<&Tag> = rules.iter().flat_map(|rule| &rule.filter.tags).collect();
        tags.sort_unstable();
        let askers = |tag: &Tag| tags.partition_point(|it| *it <= tag) - tags.partition_point(|it| *it < tag);
        let enabled: Vec<(usize, &Rule)> = rules.iter().enumerate().filter(|(_, rule)| rule.enabled).collect();
        let of_tag = |(at, rule): &(usize, &Rule)| {
            let rarest = rule.filter.tags.iter().min_by_key(|tag| askers(tag))?;
            Some((rarest.clone(), *at))
        };
        let mut by_tag: Vec<(Tag, usize)> = enabled.iter().filter_map(of_tag).collect();
        by_tag.sort_unstable();
        let mut prefixes: Vec<&[u8]> = enabled.iter().map(|(_, rule)| &rule.filter.prefix[..]).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut by_prefix: Vec<OfPrefix> = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            let mut shorter = by_prefix.len().checked_sub(1);
            while let Some(at) = shorter
                && !prefix.starts_with(&by_prefix[at].prefix)
            {
                shorter = by_prefix[at].shorter;
            }
            let (untagged, tagged) = (Vec::new(), Vec::new());
            by_prefix.push(OfPrefix { prefix: prefix.to_vec(), shorter, untagged, tagged });
        }
        for (at, rule) in enabled {
            let place = by_prefix.partition_point(|it| it.prefix < rule.filter.prefix);
            let OfPrefix { untagged, tagged, .. } = &mut by_prefix[place];
            let places = if rule.filter.tags.is_empty() { untagged } else { tagged };
            places.push(at);
        }
        Self { rules, by_prefix, by_tag }
    }

    /// All of them, in the order of the document.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// The enabled rules without tags whose prefix the key has: where they are in the document.
    pub(super) fn untagged_for<'r>(&'r self, key: &'r [u8]) -> impl Iterator<Item = usize> + 'r {
        self.of_key(key).flat_map(|of| &of.untagged).copied()
    }

    /// The enabled rules with tags whose prefix the key has.
    pub(super) fn tagged_for<'r>(&'r self, key: &'r [u8]) -> impl Iterator<Item = usize> + 'r {
        self.of_key(key).flat_map(|of| &of.tagged).copied()
    }

    /// The enabled rules that are filed under this tag.
    pub(super) fn asking_for<'r>(&'r self, key: &'r [u8], value: &'r [u8]) -> impl Iterator<Item = usize> + 'r {
        let from = self.by_tag.partition_point(|((k, v), _)| (&k[..], &v[..]) < (key, value));
        let of_tag = self.by_tag[from..].iter().take_while(move |((k, v), _)| (&k[..], &v[..]) == (key, value));
        of_tag.map(|(_, at)| *at)
    }

    /// Every prefix that the key has is among those that the last one up to it begins with.
    fn of_key<'r>(&'r self, key: &'r [u8]) -> impl Iterator<Item = &'r OfPrefix> {
        let last = self.by_prefix.partition_point(|of| of.prefix[..] <= *key).checked_sub(1);
        let prefixes = std::iter::successors(last, move |at| self.by_prefix[*at].shorter);
        prefixes.map(move |at| &self.by_prefix[at]).filter(move |of| key.starts_with(&of.prefix))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub id: String,
    /// A rule that is not enabled has no effect.
    pub enabled: bool,
    pub filter: Filter,
    pub expiration: Option<Expiration>,
    pub noncurrent: Option<Noncurrent>,
    /// Days after which an incomplete upload is aborted.
    pub abort_days: Option<u32>,
}

/// Which versions a rule applies to: those of which everything holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub prefix: Vec<u8>,
    pub tags: Vec<Tag>,
    /// Bytes that the size must exceed.
    pub greater_than: Option<u64>,
    /// Bytes that the size must be below.
    pub less_than: Option<u64>,
}

/// When current versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// Days after the last modification.
    Days(u32),
    /// Milliseconds since the Unix epoch.
    Date(u64),
    /// Never, but delete markers without other versions do, if this is true.
    Markers(bool),
}

/// When noncurrent versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noncurrent {
    /// Days after a version has become noncurrent.
    pub days: u32,
    /// Newer noncurrent versions that must be there.
    pub newer: u32,
}
