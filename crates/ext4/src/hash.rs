//! Hashes of names, by which large directories are sorted.
//!
//! A hash has 31 bits in the upper part of a word; the lowest bit belongs to the index. The root of
//! an index determines the kind.
//!
//! Half MD4 is three rounds of eight steps of MD4, TEA is the block cipher of Wheeler and Needham
//! (1994). Each mixes the name into a state, a few words at a time. The third kind is older than
//! both.

/// Kind of hash. The signedness of bytes once depended on the compiler, and is now a property of
/// the file system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HashKind {
    Legacy,
    HalfMd4,
    Tea,
}

/// Initial state of MD4; a file system with a seed uses that instead.
const MD4_START: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];

/// Highest hash. No name gets it, because it marks the end of a directory listing in hash order.
const END: u32 = 0x7FFF_FFFF << 1;

/// Returns the hash of a name.
pub(crate) fn hash(kind: HashKind, is_signed: bool, seed: [u32; 4], name: &[u8]) -> u32 {
    let letters = name.iter().map(|&byte| letter(byte, is_signed));
    let mut state = if seed == [0; 4] { MD4_START } else { seed };
    let hash = match kind {
        HashKind::Legacy => legacy(letters),
        HashKind::HalfMd4 => {
            for (index, chunk) in name.chunks(32).enumerate() {
                half_md4(&mut state, &words(chunk, name.len() - index * 32, is_signed));
            }
            state[1]
        }
        HashKind::Tea => {
            for (index, chunk) in name.chunks(16).enumerate() {
                tea(&mut state, &words(chunk, name.len() - index * 16, is_signed));
            }
            state[0]
        }
    };
    match hash & !1 {
        END => END - 2,
        hash => hash,
    }
}

fn letter(byte: u8, is_signed: bool) -> u32 {
    if is_signed { i32::from(byte.cast_signed()).cast_unsigned() } else { u32::from(byte) }
}

/// Packs up to N words of four letters, the first letter uppermost. Missing words are filled with
/// the length of the remaining name in each byte; a partial word starts from that filling.
fn words<const N: usize>(chunk: &[u8], left: usize, is_signed: bool) -> [u32; N] {
    let len = u32::try_from(left).expect("a name has at most 255 bytes") & 0xFF;
    let filling = len * 0x0101_0101;
    let mut words = [filling; N];
    for (word, letters) in words.iter_mut().zip(chunk.chunks(4)) {
        for &byte in letters {
            *word = (*word << 8).wrapping_add(letter(byte, is_signed));
        }
    }
    words
}

fn half_md4(state: &mut [u32; 4], words: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    // Mixing function, constant, rotations, and order of the words in each round.
    let rounds: [(Mix, u32, [u32; 4], [usize; 8]); 3] = [
        (|x, y, z| (x & y) | (!x & z), 0, [3, 7, 11, 19], [0, 1, 2, 3, 4, 5, 6, 7]),
        (
            |x, y, z| (x & y) | (x & z) | (y & z),
            0x5A82_7999,
            [3, 5, 9, 13],
            [1, 3, 5, 7, 0, 2, 4, 6],
        ),
        (|x, y, z| x ^ y ^ z, 0x6ED9_EBA1, [3, 9, 11, 15], [3, 7, 2, 6, 1, 5, 0, 4]),
    ];
    let mut s = *state;
    for (mix, constant, turns, order) in rounds {
        for (step, word) in order.into_iter().enumerate() {
            let at = |place: usize| (place + 4 - step % 4) % 4;
            let mixed = mix(s[at(1)], s[at(2)], s[at(3)]);
            let sum = s[at(0)].wrapping_add(mixed).wrapping_add(words[word]);
            s[at(0)] = sum.wrapping_add(constant).rotate_left(turns[step % 4]);
        }
    }
    for (kept, stirred) in state.iter_mut().zip(s) {
        *kept = kept.wrapping_add(stirred);
    }
}

fn tea(state: &mut [u32; 4], key: &[u32; 4]) {
    let half = |v: u32, sum: u32, k: &[u32]| {
        (v << 4).wrapping_add(k[0]) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(k[1])
    };
    let [mut a, mut b] = [state[0], state[1]];
    for cycle in 1..=16 {
        let sum = 0x9E37_79B9_u32.wrapping_mul(cycle);
        a = a.wrapping_add(half(b, sum, &key[..2]));
        b = b.wrapping_add(half(a, sum, &key[2..]));
    }
    state[0] = state[0].wrapping_add(a);
    state[1] = state[1].wrapping_add(b);
}

fn legacy(letters: impl Iterator<Item = u32>) -> u32 {
    let (mut now, mut before) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
    for letter in letters {
        let next = before.wrapping_add(now ^ letter.wrapping_mul(7_152_373));
        let next = if next >> 31 == 1 { next.wrapping_sub(0x7FFF_FFFF) } else { next };
        (now, before) = (next, now);
    }
    now << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: [u32; 4] = [0x0403_0201, 0x0605_0807, 0x0A09_0807, 0x100F_0E0D];
    const LONG: &[u8] = b"a name that is longer than thirty-two bytes of text";

    /// What `debugfs -R "dx_hash -h KIND NAME"` prints, which is signed.
    #[test]
    fn names_hash_as_e2fsprogs_hashes_them() {
        let of = |kind, name: &[u8]| hash(kind, true, [0; 4], name);
        for (name, legacy, half_md4, tea) in [
            (&b"a"[..], 0xE74B_53E2, 0xD5FA_7D7A, 0x6D0E_A4C0),
            (b"abc", 0x75AF_D992, 0xD196_A868, 0xB143_5EC4),
            (LONG, 0x80B4_F19C, 0x3474_AC06, 0x7AF8_35D8),
            (b"\xC3\xA4\xFF", 0x49D3_A264, 0x1BD4_5AAA, 0x32F6_8EFA),
        ] {
            assert_eq!(of(HashKind::Legacy, name), legacy, "{}", name.escape_ascii());
            assert_eq!(of(HashKind::HalfMd4, name), half_md4, "{}", name.escape_ascii());
            assert_eq!(of(HashKind::Tea, name), tea, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn names_hash_without_a_sign_as_e2fsprogs_hashes_them() {
        let of = |kind| hash(kind, false, [0; 4], b"\xC3\xA4\xFF");
        assert_eq!(of(HashKind::Legacy), 0x3A18_7666);
        assert_eq!(of(HashKind::HalfMd4), 0x15B0_FFF6);
        assert_eq!(of(HashKind::Tea), 0xD249_2B86);
    }

    #[test]
    fn a_sign_matters_only_where_there_is_one() {
        for kind in [HashKind::Legacy, HashKind::HalfMd4, HashKind::Tea] {
            assert_eq!(hash(kind, true, SEED, LONG), hash(kind, false, SEED, LONG));
            assert_ne!(hash(kind, true, SEED, b"\xE4"), hash(kind, false, SEED, b"\xE4"));
        }
    }
}
