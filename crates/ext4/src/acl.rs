//! Converts access control lists from ext4's compact form to the form of `getxattr`. It checks no
//! permissions.
//!
//! ```text
//!   ext4       | 1 | tag perm | tag perm | tag perm id | ..      an id only where there is one
//!   programs   | 2 | tag perm id | tag perm id | tag perm id | ..
//! ```

use crate::fields::{le16, le32};

/// Tags of named users and named groups.
const NAMED: [u16; 2] = [0x2, 0x8];

/// Tags of the owner, the owning group, the mask, and others.
const UNNAMED: [u16; 4] = [0x1, 0x4, 0x10, 0x20];

/// The id of an entry without one (Linux: `ACL_UNDEFINED_ID`).
const UNDEFINED_ID: u32 = !0;

/// Returns the list in the form that programs use; None if it is not a list.
pub(crate) fn for_users(stored: &[u8]) -> Option<Vec<u8>> {
    let (head, mut rest) = stored.split_at_checked(4)?;
    if le32(head, 0) != 1 {
        return None;
    }
    let mut list = 2_u32.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (entry, after) = rest.split_at_checked(4)?;
        let (id, after) = match le16(entry, 0) {
            tag if NAMED.contains(&tag) => {
                let (id, after) = after.split_at_checked(4)?;
                (le32(id, 0), after)
            }
            tag if UNNAMED.contains(&tag) => (UNDEFINED_ID, after),
            _ => return None,
        };
        list.extend_from_slice(entry);
        list.extend_from_slice(&id.to_le_bytes());
        rest = after;
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_added_where_there_are_none() {
        let stored = [1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 4, 0, 0xE8, 3, 0, 0, 0x20, 0, 0, 0];
        let list = for_users(&stored).unwrap();
        assert_eq!(list[..12], [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255]);
        assert_eq!(list[12..20], [2, 0, 4, 0, 0xE8, 3, 0, 0]);
        assert_eq!(list[20..], [0x20, 0, 0, 0, 255, 255, 255, 255]);
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_no_list() {
        for stored in [&[1, 0, 0][..], &[2, 0, 0, 0], &[1, 0, 0, 0, 1], &[1, 0, 0, 0, 2, 0, 4, 0]] {
            assert_eq!(for_users(stored), None);
        }
        assert_eq!(for_users(&[1, 0, 0, 0, 3, 0, 7, 0]), None);
    }
}
