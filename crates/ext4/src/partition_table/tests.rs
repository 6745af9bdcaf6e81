//! Tables made by hand, and damaged ones from seeds.

use std::cell::Cell;
use std::io;

use super::gpt::crc32;
use super::*;

/// An MBR with a Linux partition at 1 MiB and logical ones.
fn mbr_disk(logical: u32) -> Vec<u8> {
    let mut disk = vec![0; 4 << 20];
    entry(&mut disk, 0, 0, 0x83, 2048, 1024);
    entry(&mut disk, 0, 1, 0x05, 4096, 4096);
    for index in 0..logical {
        let table = 4096 + index * 16;
        entry(&mut disk, table, 0, 0x83, 8, 4);
        if index + 1 < logical {
            entry(&mut disk, table, 1, 0x05, (index + 1) * 16, 16);
        }
    }
    disk
}

fn entry(disk: &mut [u8], sector: u32, index: usize, kind: u8, first: u32, sectors: u32) {
    let table = &mut disk[sector as usize * 512..][..512];
    table[510..].copy_from_slice(&[0x55, 0xAA]);
    let entry = &mut table[446 + index * 16..][..16];
    entry[4] = kind;
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
}

/// A GPT with one Linux partition, of sectors 64 to 127.
fn gpt_disk(sector: usize) -> Vec<u8> {
    let mut disk = vec![0; 256 * sector];
    entry(&mut disk, 0, 0, 0xEE, 1, 255);
    let mut array = vec![0; 128 * 128];
    let guid = [0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79];
    array[..10].copy_from_slice(&guid);
    array[10..16].copy_from_slice(&[0x3D, 0x69, 0xD8, 0x47, 0x7D, 0xE4]);
    array[32..40].copy_from_slice(&64_u64.to_le_bytes());
    array[40..48].copy_from_slice(&127_u64.to_le_bytes());
    let array_sectors = array.len().div_ceil(sector);
    for (at, array_at) in [(1, 2), (255, 255 - array_sectors)] {
        disk[array_at * sector..][..array.len()].copy_from_slice(&array);
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        header[72..80].copy_from_slice(&(array_at as u64).to_le_bytes());
        header[80..84].copy_from_slice(&128_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        header[88..92].copy_from_slice(&crc32(&array).to_le_bytes());
        let sum = crc32(&header).to_le_bytes();
        header[16..20].copy_from_slice(&sum);
        disk[at * sector..][..92].copy_from_slice(&header);
    }
    disk
}

fn shown(disk: &Vec<u8>) -> String {
    PartitionTable::read(disk).unwrap().map_or_else(|| "none".to_owned(), |table| table.to_string())
}

#[test]
fn primary_and_logical_partitions_have_the_kernels_numbers() {
    let disk = mbr_disk(2);
    assert_eq!(shown(&disk), "1 (512K, Linux), 5 (2K, Linux), 6 (2K, Linux)");
    let table = PartitionTable::read(&disk).unwrap().unwrap();
    assert_eq!(table.get(6).unwrap().range(4 << 20).unwrap().start, (4096 + 16 + 8) * 512);
    assert!(table.get(2).is_none());
    assert!(table.get(1).unwrap().range(1 << 20).is_none());
    assert_eq!(shown(&vec![0; 1 << 20]), "none");
}

#[test]
fn a_chain_of_logical_partitions_that_does_not_end_is_an_error() {
    let mut disk = mbr_disk(2);
    entry(&mut disk, 4096 + 16, 1, 0x05, 0, 16);
    let error = PartitionTable::read(&disk).unwrap_err().to_string();
    assert!(error.contains("does not end"), "{error}");
    entry(&mut disk, 4096 + 16, 1, 0x05, u32::MAX, 16);
    let error = PartitionTable::read(&disk).unwrap_err().to_string();
    assert!(error.contains("leaves the disk"), "{error}");
}

#[test]
fn a_gpt_is_read_from_its_backup_if_the_first_is_damaged() {
    for sector in [512, 4096] {
        let disk = gpt_disk(sector);
        let expected = format!("1 ({}K, Linux)", 64 * sector / 1024);
        assert_eq!(shown(&disk), expected);
        for damage in [sector + 24, sector + 16, 2 * sector + 5] {
            let mut damaged = disk.clone();
            damaged[damage] ^= 1;
            assert_eq!(shown(&damaged), expected, "sectors of {sector}, byte {damage}");
            // Both.
            damaged[255 * sector + 24] ^= 1;
            let error = PartitionTable::read(&damaged).unwrap_err().to_string();
            assert!(error.contains("GPT"), "{error}");
        }
        let mut without_its_start = disk;
        without_its_start[..3 * sector].fill(0);
        assert_eq!(shown(&without_its_start), expected);
    }
}

/// Counts reads, and fails the test if one leaves the disk.
struct CountedDisk(Vec<u8>, Cell<u64>);

impl BlockSource for CountedDisk {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.1.set(self.1.get() + 1);
        assert!(offset + to.len() as u64 <= self.0.len() as u64, "outside: {offset}");
        self.0.read(offset, to)
    }
}

/// A random number generator, xorshift64.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn choose(state: &mut u64, count: usize) -> usize {
    usize::try_from(random(state) % count as u64).unwrap()
}

#[test]
fn damaged_tables_cost_few_reads_and_no_panic() {
    for (shape, disk) in [mbr_disk(3), gpt_disk(512), gpt_disk(4096)].into_iter().enumerate() {
        let len = disk.len() as u64;
        let mut counted = CountedDisk(disk.clone(), Cell::new(0));
        let places: Vec<u64> = match shape {
            0 => (446..512)
                .chain((4096..4129).step_by(16).flat_map(|at| at * 512 + 446..at * 512 + 512))
                .collect(),
            1 => (446..1152).chain(len - 512..len - 420).collect(),
            _ => (446..512)
                .chain(4096..4188)
                .chain(8192..8320)
                .chain(len - 4096..len - 4004)
                .collect(),
        };
        for seed in 1..2000_u64 {
            let mut state = seed;
            let mut undo = Vec::new();
            for _ in 0..1 + seed % 5 {
                let place = usize::try_from(places[choose(&mut state, places.len())]).unwrap();
                undo.push((place, counted.0[place]));
                counted.0[place] = random(&mut state).to_le_bytes()[0];
            }
            counted.1.set(0);
            let read = PartitionTable::read(&counted);
            assert!(
                counted.1.get() <= 140,
                "shape {shape}, seed {seed}: {} reads",
                counted.1.get()
            );
            for partition in read.ok().flatten().into_iter().flat_map(|table| table.partitions) {
                if let Some(range) = partition.range(len) {
                    assert!(range.end <= len, "shape {shape}, seed {seed}");
                }
            }
            for (place, byte) in undo.into_iter().rev() {
                counted.0[place] = byte;
            }
        }
        assert!(counted.0 == disk);
    }
}
