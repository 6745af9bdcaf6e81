//! Finds kernels that drop cached pages although memory is free.
//!
//! DAMON, the kernel's memory monitor, can be set to reclaim cold pages; read-ahead and caches then
//! gain less. Reclaim only under memory pressure is no finding.

use super::{Confidence, Finding};
use crate::machine::{PageReclaim, page_reclaim};
use crate::sysfs::SystemRoot;

pub(super) fn check(sys: &SystemRoot, notes: &mut Vec<String>) -> Vec<Finding> {
    let (under_pressure, always): (Vec<_>, Vec<_>) =
        page_reclaim(sys).into_iter().partition(|it| it.is_under_pressure_only);
    if !under_pressure.is_empty() {
        notes.push(
            "DAMON reclaims cold pages when memory is short (not before): repeated reads of cold \
             files go to the device again"
                .to_owned(),
        );
    }
    always.into_iter().map(finding).collect()
}

fn finding(reclaim: PageReclaim) -> Finding {
    let PageReclaim { evidence, off, has_filters, .. } = reclaim;
    Finding {
        device: "memory".to_owned(),
        check: "reclaims-with-memory-free",
        what: "DAMON pages out cold memory, cached files included, even if memory is free."
            .to_owned(),
        why: "A file read again later comes from the device again, and read-ahead pages may be \
              evicted before they are used. DAMON is meant for machines that share memory with \
              others; measurements of caches on this machine are not repeatable."
            .to_owned(),
        evidence: [
            evidence,
            vec!["docs.kernel.org, admin-guide/mm/damon: the scheme pageout".to_owned()],
        ]
        .concat(),
        mend: vec![off],
        // The pages that filters exclude are not examined.
        confidence: if has_filters { Confidence::Likely } else { Confidence::Computed },
    }
}
