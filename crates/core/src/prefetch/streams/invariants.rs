//! Checks the stream table of a file, for tests.

use super::Streams;
use crate::prefetch::memory_shares::ShareId;
use crate::units::PageIndex;

impl Streams {
    /// Checks that entries are windows, with their marker inside, and that no share is lost.
    pub(crate) fn assert_consistent(&self) {
        let (confirmed, tentative) = (self.confirmed.entries(), self.tentative.entries());
        assert!(confirmed.len() <= Self::CONFIRMED_MAX, "{} confirmed streams", confirmed.len());
        assert!(tentative.len() <= Self::TENTATIVE_MAX, "{} tentative ones", tentative.len());
        for entry in confirmed.iter().chain(tentative) {
            assert!(entry.start <= entry.end, "{entry:?} ends before it starts");
            let is_inside = |marker: PageIndex| entry.start <= marker && marker < entry.end;
            assert!(entry.marker().is_none_or(is_inside), "{entry:?} has its marker elsewhere");
            assert!(entry.is_there() || entry.share == ShareId::NONE, "{entry:?} lost its share");
        }
        let dropped = self.dropped.iter().all(|share| *share == ShareId::NONE);
        assert!(dropped, "shares of forgotten streams are taken after each decision");
    }
}
