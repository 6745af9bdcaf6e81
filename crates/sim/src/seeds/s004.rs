//! Seed 004: a partition at half the speed of its parent, because its size is odd.

use foreread_core::units::{ByteCount, Nanos, Sectors};

use super::csv::Csv;
use super::table::{SeedCell, SeedProgress, SeedTable, SeedVerdict, errors};
use crate::device::{BioSource, DeviceParams, Mapped};
use crate::record::RecordMode;
use crate::scenario::Scenario;
use crate::size::Size;
use crate::workload::Workload;

/// One dd of the table.
struct Dd {
    /// Name in the table.
    target: &'static str,
    size_sectors: Option<f64>,
    /// Size of the device: as published, or according to the notes.
    sectors: u64,
    from_mib: u64,
    bio_us: f64,
}

/// Cost of a bio in us: through one mapping, and through two.
const ONE_US: f64 = 3.29;
const TWO_US: f64 = 4.46;

const DDS: [Dd; 4] = [
    Dd { target: "mpath4", size_sectors: None, sectors: 1 << 23, from_mib: 0, bio_us: ONE_US },
    Dd {
        target: "mpath4p1",
        size_sectors: None,
        sectors: (1 << 23) - 63,
        from_mib: 1024,
        bio_us: TWO_US,
    },
    Dd {
        target: "dm-linear test",
        size_sectors: Some(1_870_000.0),
        sectors: 1_870_000,
        from_mib: 600,
        bio_us: ONE_US,
    },
    Dd {
        target: "dm-linear test",
        size_sectors: Some(1_870_001.0),
        sectors: 1_870_001,
        from_mib: 700,
        bio_us: ONE_US,
    },
];

pub(super) fn tables(progress: SeedProgress<'_>) -> Vec<SeedTable> {
    vec![dd(progress)]
}

fn dd(progress: SeedProgress<'_>) -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/004_dd.csv"));
    let (mut exact, mut rates) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    for dd in &DDS {
        progress(&format!("004 {}", dd.name()));
        let row = csv.rows().find(|row| {
            row.text("target") == dd.target && row.number("size_sectors") == dd.size_sectors
        });
        let row = row.expect("the published table has this cell");
        let of_row =
            |column| row.number(column).expect("this cell of the published table is a number");
        let bytes = Size(ByteCount(
            row.text("bytes").parse().expect("this cell of the published table is a number"),
        ));
        let per_block = dd.run(BioSource::PerBlock, bytes);
        let multi_block = dd.run(BioSource::MultiBlock, bytes);
        let sectors = dd.mapped(BioSource::PerBlock).block().0 as f64 / 512.0;
        match dd.told_sectors() {
            Some(told) => exact.push(SeedCell::new(dd.name(), "sectors a bio", told, sectors)),
            None => others.push(SeedCell::ours_only(dd.name(), "sectors a bio", sectors)),
        }
        rates.push(SeedCell::new(dd.name(), "s", of_row("seconds"), per_block.seconds));
        rates.push(SeedCell::new(
            dd.name(),
            "MB/s",
            of_row("mb_per_s_printed"),
            per_block.mb_per_s,
        ));
        others.push(SeedCell::ours_only(dd.name(), "MB/s, multi-block", multi_block.mb_per_s));
    }
    let of_rates = errors(&rates);
    let right = exact.iter().filter(|cell| cell.seed == Some(cell.ours)).count();
    let why = format!(
        "block sizes: {right} of {} exact; throughput: largest error {:.1} %",
        exact.len(),
        of_rates.max
    );
    let holds = right == exact.len() && of_rates.max <= 3.0;
    let cells = exact.into_iter().chain(rates).chain(others).collect();
    let title = "dd bs=1M of mapped devices by their size".into();
    let mut notes = NOTES.map(String::from).to_vec();
    notes.push(format!(
        "The cost of bios falls after the transfer, not before: work before a command is sent \
         overlaps with the previous window. There, 3.29 us per 512 bytes would be hidden, and the \
         odd device would reach {:.0} MB/s.",
        DDS[3].hidden_mb_per_s()
    ));
    let verdict = SeedVerdict { holds, why };
    SeedTable { seed: "004", table: "004_dd", title, cells, notes, verdict }
}

const NOTES: [&str; 4] = [
    "Time = bytes / B + bios x c, one model for the four runs: B = 130.4 MB/s for all, c = 3.29 us \
     through one mapping (three runs) and 4.46 us through two (mpath4p1, a mapping over mpath4). \
     Three parameters and four runs leave one degree of freedom, so mpath4p1 fits by construction.",
    "The sectors per bio of the dm-linear pair match those that the author saw in a debugger: 8 at \
     best, 1 at worst. They follow from the size alone.",
    "The thread does not give the sizes of mpath4 and mpath4p1. We assume whole pages for the \
     first and an odd size for the second, the only combination that explains the figures.",
    "multi-block is how current kernels read: one bio per run of blocks. Odd sizes cost nothing.",
];

struct DdFigures {
    seconds: f64,
    mb_per_s: f64,
}

impl Dd {
    fn name(&self) -> String {
        self.size_sectors.map_or(self.target.into(), |size| format!("{}, {size}s", self.target))
    }

    /// Returns the sectors per bio given in the text.
    fn told_sectors(&self) -> Option<f64> {
        match self.sectors {
            1_870_000 => Some(8.0),
            1_870_001 => Some(1.0),
            _ => None,
        }
    }

    fn scenario(&self, reader: BioSource) -> Scenario {
        let mut scenario = Scenario::built_in(include_str!("../../scenarios/004-bios.toml"));
        let test = scenario.device.get_mut("test").expect("the built-in scenario has this entry");
        let DeviceParams::Mapped(mapped) = &mut test.model.get_mut().model else {
            panic!("it is mapped")
        };
        mapped.capacity = Size(Sectors(self.sectors).bytes());
        mapped.reader = reader;
        mapped.bio_us = self.bio_us;
        scenario
    }

    fn mapped(&self, reader: BioSource) -> Mapped {
        let scenario = self.scenario(reader);
        let DeviceParams::Mapped(mapped) = &scenario.device["test"].model.get_ref().model else {
            panic!("it is mapped")
        };
        mapped.clone()
    }

    fn run(&self, reader: BioSource, bytes: Size) -> DdFigures {
        self.run_in(self.scenario(reader), bytes)
    }

    /// Returns the throughput of the same bios if the reader processes them while read-ahead is in
    /// flight.
    fn hidden_mb_per_s(&self) -> f64 {
        let mut scenario = self.scenario(BioSource::MultiBlock);
        let Workload::Sequential(dd) = scenario.process[0].run.get_mut() else {
            panic!("it is dd")
        };
        dd.cpu_ns_per_byte = self.bio_us * 1e3 / 512.0;
        dd.read = Size(ByteCount(4096));
        self.run_in(scenario, Size(ByteCount(100 << 20))).mb_per_s
    }

    fn run_in(&self, mut scenario: Scenario, bytes: Size) -> DdFigures {
        let file = scenario.file.get_mut("data").expect("the built-in scenario has this entry");
        file.at = Size(ByteCount(self.from_mib << 20));
        file.size = bytes;
        let mut building = scenario
            .build(RecordMode::Hash)
            .expect("the scenario is part of the program and was checked");
        building.run.go(Nanos(u64::MAX));
        let ran = building.run.end();
        let dd = &ran.processes[0];
        DdFigures { seconds: dd.seconds(ran.end), mb_per_s: dd.mb_per_s(ran.end) }
    }
}
