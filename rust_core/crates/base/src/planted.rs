//! Deliberate defects, to show that the test suites find them. Only with the cargo feature `planted`, which no released
//! build has. Without it `is` is the constant `false`.

/// Whether this build can have deliberate defects.
pub const PLANTED: bool = cfg!(feature = "planted");

/// A rule of the engine that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    AcknowledgeBeforeSync = 1,
    RetryFailedSync,
    PackWithoutDirectorySync,
    CompactedLogWithoutDirectorySync,
    CompactedLogWithoutSync,
    ReplaceLogBeforeDurable,
    ReplaceLogBeforeApplied,
    TombstonesDropped,
    CondemnWithoutCheck,
    CondemnWithoutBarrier,
    CondemnWithoutSecondLook,
    CondemnWithoutReaders,
    UnlinkWithoutReaders,
    HitOnCondemned,
    CopyWithoutReference,
    PinForgotten,
    RetirePackInFlight,
    SweepWithoutBarrier,
    MoveWithoutSync,
    AttributesAsPut,
    UpdateLeftInCache,
    UpdatesDropped,
    OlderVersionShown,
    MarkerWithoutCondition,
    DocumentsInherited,
    AppendOnStaleLength,
    SnapshotWithoutFreeze,
    SharedLayerDropped,
    WhiteoutIgnored,
    AmendmentsIgnored,
    AmendmentAsVersion,
    MoveLeavesOneName,
    MergeOfSharedLayers,
    MergeForgetsMarkers,
    AmendmentDroppedByMerge,
    HistoryMergedNewestFirst,
    ExpireWithoutCheck,
    OtherMarkerExpires,
    TokenOutlivesFailure,
    LocksOutOfOrder,
    NewerObjectHides,
    HitBeforeOverlay,
    DamageTakenForATornEnd,
    CleanEndNotWritten,
    SecondHeaderIgnored,
    LogBlocksNotCompared,
    ChunkBlocksNotCompared,
    PackSaltIgnored,
    LengthsNotCompared,
    RepairWithoutResync,
    IndexPagesNotCompared,
    IndexDamageIgnored,
    RebuildWithoutMark,
    RepairWithoutHolds,
    SalvageWithoutBlockChecksums,
    SalvageWithoutResync,
    SalvageOldestWins,
    SalvageLossNotListed,
    SalvageDoubtNotSaid,
    SalvageWithoutBuckets,
    SalvageWithoutUpdates,
    CommitNotAuthenticated,
    EventsBeforeSync,
    LogCompactedBeforeEvents,
    TagsNotCompared,
    SealTakenFromDisk,
}

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    const UNKNOWN: u8 = u8::MAX;
    static CHOSEN: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// A test suite in `tests/`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Suite {
        Crash,
        Races,
        Flips,
        Salvage,
    }

    impl Bug {
        pub const ALL: [Self; 66] = [
            Self::AcknowledgeBeforeSync,
            Self::RetryFailedSync,
            Self::PackWithoutDirectorySync,
            Self::CompactedLogWithoutDirectorySync,
            Self::CompactedLogWithoutSync,
            Self::ReplaceLogBeforeDurable,
            Self::ReplaceLogBeforeApplied,
            Self::TombstonesDropped,
            Self::CondemnWithoutCheck,
            Self::CondemnWithoutBarrier,
            Self::CondemnWithoutSecondLook,
            Self::CondemnWithoutReaders,
            Self::UnlinkWithoutReaders,
            Self::HitOnCondemned,
            Self::CopyWithoutReference,
            Self::PinForgotten,
            Self::RetirePackInFlight,
            Self::SweepWithoutBarrier,
            Self::MoveWithoutSync,
            Self::AttributesAsPut,
            Self::UpdateLeftInCache,
            Self::UpdatesDropped,
            Self::OlderVersionShown,
            Self::MarkerWithoutCondition,
            Self::DocumentsInherited,
            Self::AppendOnStaleLength,
            Self::SnapshotWithoutFreeze,
            Self::SharedLayerDropped,
            Self::WhiteoutIgnored,
            Self::AmendmentsIgnored,
            Self::AmendmentAsVersion,
            Self::MoveLeavesOneName,
            Self::MergeOfSharedLayers,
            Self::MergeForgetsMarkers,
            Self::AmendmentDroppedByMerge,
            Self::HistoryMergedNewestFirst,
            Self::ExpireWithoutCheck,
            Self::OtherMarkerExpires,
            Self::TokenOutlivesFailure,
            Self::LocksOutOfOrder,
            Self::NewerObjectHides,
            Self::HitBeforeOverlay,
            Self::DamageTakenForATornEnd,
            Self::CleanEndNotWritten,
            Self::SecondHeaderIgnored,
            Self::LogBlocksNotCompared,
            Self::ChunkBlocksNotCompared,
            Self::PackSaltIgnored,
            Self::LengthsNotCompared,
            Self::RepairWithoutResync,
            Self::IndexPagesNotCompared,
            Self::IndexDamageIgnored,
            Self::RebuildWithoutMark,
            Self::RepairWithoutHolds,
            Self::SalvageWithoutBlockChecksums,
            Self::SalvageWithoutResync,
            Self::SalvageOldestWins,
            Self::SalvageLossNotListed,
            Self::SalvageDoubtNotSaid,
            Self::SalvageWithoutBuckets,
            Self::SalvageWithoutUpdates,
            Self::CommitNotAuthenticated,
            Self::EventsBeforeSync,
            Self::LogCompactedBeforeEvents,
            Self::TagsNotCompared,
            Self::SealTakenFromDisk,
        ];

        /// The suite that must catch it.
        pub fn suite(self) -> Suite {
            match self {
                Self::AcknowledgeBeforeSync
                | Self::RetryFailedSync
                | Self::PackWithoutDirectorySync
                | Self::CompactedLogWithoutDirectorySync
                | Self::CompactedLogWithoutSync
                | Self::ReplaceLogBeforeDurable
                | Self::ReplaceLogBeforeApplied
                | Self::TombstonesDropped
                | Self::CondemnWithoutCheck
                | Self::CondemnWithoutReaders
                | Self::UnlinkWithoutReaders
                | Self::HitOnCondemned
                | Self::CopyWithoutReference
                | Self::PinForgotten
                | Self::RetirePackInFlight
                | Self::SweepWithoutBarrier
                | Self::MoveWithoutSync
                | Self::AttributesAsPut
                | Self::UpdateLeftInCache
                | Self::UpdatesDropped
                | Self::MarkerWithoutCondition
                | Self::DocumentsInherited
                | Self::AppendOnStaleLength
                | Self::SnapshotWithoutFreeze
                | Self::SharedLayerDropped
                | Self::WhiteoutIgnored
                | Self::AmendmentsIgnored
                | Self::AmendmentAsVersion
                | Self::MoveLeavesOneName
                | Self::MergeOfSharedLayers
                | Self::MergeForgetsMarkers
                | Self::ExpireWithoutCheck
                | Self::TokenOutlivesFailure
                | Self::EventsBeforeSync
                | Self::LogCompactedBeforeEvents => Suite::Crash,
                // The defect shows only if a reader runs in a short window, if several clients are decided together, or if a
                // delete marker that is alone is hidden by another one before it expires, which is rare in the crash suite.
                // Or the schedules have histories that are merged.
                Self::CondemnWithoutBarrier
                | Self::CondemnWithoutSecondLook
                | Self::AmendmentDroppedByMerge
                | Self::HistoryMergedNewestFirst
                | Self::OtherMarkerExpires
                | Self::LocksOutOfOrder
                | Self::NewerObjectHides
                | Self::HitBeforeOverlay
                | Self::OlderVersionShown => Suite::Races,
                Self::DamageTakenForATornEnd
                | Self::CleanEndNotWritten
                | Self::SecondHeaderIgnored
                | Self::LogBlocksNotCompared
                | Self::ChunkBlocksNotCompared
                | Self::PackSaltIgnored
                | Self::LengthsNotCompared
                | Self::RepairWithoutResync
                | Self::IndexPagesNotCompared
                | Self::IndexDamageIgnored
                | Self::RebuildWithoutMark
                | Self::RepairWithoutHolds
                | Self::TagsNotCompared
                | Self::SealTakenFromDisk => Suite::Flips,
                Self::SalvageWithoutBlockChecksums
                | Self::SalvageWithoutResync
                | Self::SalvageOldestWins
                | Self::SalvageLossNotListed
                | Self::SalvageDoubtNotSaid
                | Self::SalvageWithoutBuckets
                | Self::SalvageWithoutUpdates
                | Self::CommitNotAuthenticated => Suite::Salvage,
            }
        }

        /// The defects that `suite` must catch. If `ORCAS_PLANTED` is set, at most the one that it names.
        ///
        /// # Panics
        /// When there is no defect with that name.
        pub fn asked_of(suite: Suite) -> impl Iterator<Item = Self> {
            let asked = std::env::var("ORCAS_PLANTED").ok();
            let asked = asked.map(|name| Self::by_name(&name).expect("ORCAS_PLANTED names a defect"));
            Self::ALL.into_iter().filter(move |bug| bug.suite() == suite && asked.is_none_or(|asked| asked == *bug))
        }

        /// The defect with this name, as in `ORCAS_PLANTED`.
        pub fn by_name(name: &str) -> Option<Self> {
            Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
        }
    }

    /// Chooses the defect, or none. This overrides `ORCAS_PLANTED`.
    pub fn choose(bug: Option<Bug>) {
        CHOSEN.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    /// Whether `bug` was chosen or, if `choose` was not called, is named by `ORCAS_PLANTED`.
    pub fn is(bug: Bug) -> bool {
        let mut chosen = CHOSEN.load(Ordering::Relaxed);
        if chosen == UNKNOWN {
            let named = std::env::var("ORCAS_PLANTED").ok().and_then(|name| Bug::by_name(&name));
            chosen = named.map_or(0, |bug| bug as u8);
            CHOSEN.store(chosen, Ordering::Relaxed);
        }
        chosen == bug as u8
    }
}

#[cfg(feature = "planted")]
pub use chosen::{Suite, choose, is};

#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_: Bug) -> bool {
    false
}
