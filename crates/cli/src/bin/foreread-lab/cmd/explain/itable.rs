//! `foreread-lab explain itable`: blocks of an inode table that are read for an inode.

mod args;
mod image;

pub(crate) use args::ItableArgs;

use foreread_ext4::itable::{BlockIndex, FixedWindow, InodeTable};
use serde::Serialize;

use self::image::ItableWindows;
use foreread_cli::image::ImageTarget;
use foreread_cli::output::{Failure, Printer};

/// Blocks or inodes to explain.
struct ItablePlan {
    subject: ItableSubject,
    json: bool,
}

enum ItableSubject {
    /// Inodes of an image.
    Image { target: ImageTarget, inodes: Vec<u32>, windows: ItableWindows },
    /// Blocks of a table without an image.
    Table(TableSubject),
}

struct TableSubject {
    table: InodeTable,
    window: FixedWindow,
    blocks: Vec<BlockIndex>,
}

/// JSON of one window.
#[derive(Serialize)]
struct TableRead {
    block: u64,
    first: u64,
    last: u64,
    blocks: u64,
}

pub(super) fn run(args: &ItableArgs, out: &mut Printer) -> Result<(), Failure> {
    let plan = args.resolve()?;
    match &plan.subject {
        ItableSubject::Image { target, inodes, windows } => {
            image::run(target, inodes, windows, plan.json, out)
        }
        ItableSubject::Table(subject) => of_table(subject, plan.json, out),
    }
}

fn of_table(subject: &TableSubject, json: bool, out: &mut Printer) -> Result<(), Failure> {
    // Computes all lines before any is printed.
    let explained = subject.blocks.iter().map(|block| explain(subject, *block));
    let explained = explained.collect::<Result<Vec<_>, _>>()?;
    if json {
        return out.json("explain itable", explained);
    }
    for read in explained {
        let TableRead { block, first, last, blocks } = read;
        out.line(&format!("{block}: {first}..{last} ({blocks})"))?;
        if out.is_terminal()
            && let Some(picture) = picture(&read)
        {
            out.line(&picture)?;
        }
    }
    Ok(())
}

fn explain(subject: &TableSubject, block: BlockIndex) -> Result<TableRead, Failure> {
    let first = subject.table.first();
    let blocks = subject.window.decide(subject.table, block).ok_or_else(|| {
        Failure::WrongUse(if block < first {
            format!("block {block} lies before the table, which starts at {first}")
        } else {
            format!("there is no block {block}: it is past the end of all block numbers")
        })
    })?;
    let (start, end) = (blocks.start.0, blocks.end.0);
    Ok(TableRead { block: block.0, first: start, last: end - 1, blocks: end - start })
}

/// Draws a window with the block in it; None if it has no neighbours or no room on a line.
fn picture(read: &TableRead) -> Option<String> {
    let TableRead { block, first, last, blocks } = *read;
    let letter = |each| if each == block { '#' } else { '=' };
    let is_drawn = (2..=WIDEST_PICTURE).contains(&blocks);
    is_drawn.then(|| format!("  |{}|", (first..=last).map(letter).collect::<String>()))
}

/// Largest number of blocks that fit on a line.
const WIDEST_PICTURE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_drawn_where_it_fits_on_a_line() {
        let drawn = |block, first, last| {
            picture(&TableRead { block, first, last, blocks: last + 1 - first })
        };
        assert_eq!(drawn(1100, 1088, 1103).as_deref(), Some("  |============#===|"));
        assert_eq!(drawn(1505, 1504, 1511).as_deref(), Some("  |=#======|"));
        assert_eq!(drawn(9999, 9999, 9999), None);
        assert_eq!(drawn(7, 0, 64), None);
    }
}
